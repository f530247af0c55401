package embedded

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/s3store"
	"github.com/watermill-envelope/envelope/claimcheck/storetest"
	"github.com/watermill-envelope/envelope/integration/servers"
)

func gofakes3(t *testing.T, o servers.Gofakes3Options) *servers.Gofakes3 {
	t.Helper()
	g, err := servers.StartGofakes3(o)
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, g)
	return g
}

func s3Store(t *testing.T, client *s3.Client, bucket string) *s3store.Store {
	t.Helper()
	s, err := s3store.New(s3store.Config{Client: client, Bucket: bucket})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestS3Store(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		New: func(t *testing.T) claimcheck.Store {
			g := gofakes3(t, servers.Gofakes3Options{Connections: 4})
			return s3Store(t, g.Client(), g.Bucket())
		},
		Forbidden: func(t *testing.T) claimcheck.Store {
			g := gofakes3(t, servers.Gofakes3Options{})
			g.Break(servers.S3Error(403, "AccessDenied"))
			return s3Store(t, g.Client(), g.Bucket())
		},
		Unavailable: func(t *testing.T) claimcheck.Store {
			g := gofakes3(t, servers.Gofakes3Options{})
			if err := g.Stop(); err != nil {
				t.Fatal(err)
			}
			return s3Store(t, g.Client(), g.Bucket())
		},
	})
}
