package real

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/s3store"
	"github.com/watermill-envelope/envelope/claimcheck/storetest"
)

func s3Store(t *testing.T, client *s3.Client, bucket string) *s3store.Store {
	t.Helper()
	s, err := s3store.New(s3store.Config{Client: client, Bucket: bucket})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keys changes a client's credentials.
func keys(access, secret string) func(*s3.Options) {
	return func(o *s3.Options) {
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: access, SecretAccessKey: secret}, nil
		})
	}
}

func TestS3Store(t *testing.T) {
	v := versitygw(t)
	storetest.Run(t, storetest.Harness{
		New: func(t *testing.T) claimcheck.Store {
			bucket := "bucket-" + strings.ToLower(rand.Text())
			if _, err := v.Client().CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)}); err != nil {
				t.Fatal(err)
			}
			return s3Store(t, v.Client(), bucket)
		},
		Forbidden: func(t *testing.T) claimcheck.Store {
			access, _ := v.Keys()
			return s3Store(t, v.Client(keys(access, "another secret")), v.Bucket())
		},
		Unavailable: func(t *testing.T) claimcheck.Store {
			stopped := versitygw(t)
			if err := stopped.Stop(); err != nil {
				t.Fatal(err)
			}
			return s3Store(t, stopped.Client(), stopped.Bucket())
		},
	})
}

// Other reasons why a server refuses us or cannot do its work.
func TestS3StoreMisconfigured(t *testing.T) {
	v := versitygw(t)
	_, secret := v.Keys()
	for _, x := range []struct {
		name   string
		client *s3.Client
		bucket string
		rule   string
	}{
		{"unknown access key", v.Client(keys("NOBODY", secret)), v.Bucket(), "forbidden"},
		{"signed for another region", v.Client(func(o *s3.Options) { o.Region = "eu-central-1" }), v.Bucket(), "forbidden"},
		{"missing bucket", v.Client(), "no-such-bucket", "unavailable"},
	} {
		t.Run(x.name, func(t *testing.T) {
			store := func(t *testing.T) claimcheck.Store { return s3Store(t, x.client, x.bucket) }
			ran := 0
			for _, c := range storetest.Cases(storetest.Harness{New: store, Forbidden: store, Unavailable: store}) {
				if c.Name != x.rule {
					continue
				}
				ran++
				if err := c.Check(t); err != nil {
					t.Error(err)
				}
			}
			if ran != 1 {
				t.Errorf("%d cases ran, want one", ran)
			}
		})
	}
}

// The objects are there, and the rights, when the server comes back.
func TestS3StoreRestart(t *testing.T) {
	v := versitygw(t)
	s := s3Store(t, v.Client(), v.Bucket())
	ref, err := claimcheck.NewRef("acme", "01M39VMD8RA3C5HR4RBV67Y000")
	if err != nil {
		t.Fatal(err)
	}
	body := strings.NewReader("an object")
	if err := s.Put(t.Context(), ref.Key(), io.NewSectionReader(body, 0, int64(body.Len()))); err != nil {
		t.Fatal(err)
	}
	if err := v.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), ref.Key(), 0, 100); !errors.Is(err, claimcheck.ErrUnavailable) {
		t.Errorf("Get from a server that was killed: %v", err)
	}
	if err := v.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := s.Get(t.Context(), ref.Key(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); string(got) != "an object" || err != nil {
		t.Errorf("after the crash the object is %q, %v", got, err)
	}
}
