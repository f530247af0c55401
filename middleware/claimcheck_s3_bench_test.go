package middleware_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/watermill-envelope/envelope/claimcheck/s3store"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// BenchmarkClaimCheckS3 publishes 100 bodies of 100 KiB to a server of S3 that answers after 10
// ms: in one call, whose bodies are one object, and in 100 calls of one.
func BenchmarkClaimCheckS3(b *testing.B) {
	const latency = 10 * time.Millisecond
	var puts atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		puts.Add(1)
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			b.Error(err)
		}
		time.Sleep(latency)
		w.Header().Set("ETag", `"0123456789abcdef0123456789abcdef"`)
	}))
	defer server.Close()
	store, err := s3store.New(s3store.Config{Bucket: "claims", Client: s3.New(s3.Options{
		BaseEndpoint: aws.String(server.URL), UsePathStyle: true, Region: "eu-central-1", HTTPClient: server.Client(),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
		}),
	})})
	if err != nil {
		b.Fatal(err)
	}
	bare := kafkaPublisher{}
	pub := wrap(b, claimCheck(b, hookmw.ClaimCheckConfig{Store: store}), bare, nil)
	messages := make([]*message.Message, 100)
	for i := range messages {
		messages[i] = hook(text(100<<10 + i))
	}
	for _, calls := range []int{1, 100} {
		b.Run(fmt.Sprintf("bodies=100/calls=%d", calls), func(b *testing.B) {
			puts.Store(0)
			for b.Loop() {
				for i := 0; i < len(messages); i += len(messages) / calls {
					if err := pub.Publish("hooks", messages[i:i+len(messages)/calls]...); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(puts.Load())/float64(b.N), "puts/op")
		})
	}
}
