package embedded

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"github.com/fsouza/fake-gcs-server/fakestorage"
	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcp"
	"google.golang.org/api/option"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/blobstore"
	"github.com/watermill-envelope/envelope/claimcheck/storetest"
)

const gcsBucket = "claims-bucket"

// fakeGCS starts a server that speaks the JSON interface of Google Cloud Storage, with one
// empty bucket.
func fakeGCS(t *testing.T) *fakestorage.Server {
	t.Helper()
	s, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1", Writer: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	s.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: gcsBucket})
	return s
}

// gcsStore returns a store in a bucket of a server at url, which tries everything once.
func gcsStore(t *testing.T, url, bucket string, transport http.RoundTripper) *blobstore.Store {
	t.Helper()
	b, err := gcsblob.OpenBucket(t.Context(), &gcp.HTTPClient{Client: http.Client{Transport: transport}}, bucket, &gcsblob.Options{
		ClientOptions: []option.ClientOption{option.WithEndpoint(url + "/storage/v1/"), storage.WithJSONReads()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	var client *storage.Client
	if !b.As(&client) {
		t.Fatal("gcsblob has no *storage.Client")
	}
	client.SetRetry(storage.WithPolicy(storage.RetryNever))
	s, err := blobstore.New(blobstore.Config{Bucket: b, WriterOptions: blob.WriterOptions{BeforeWrite: func(as func(any) bool) error {
		var w *storage.Writer
		if !as(&w) {
			t.Error("gcsblob has no *storage.Writer")
			return nil
		}
		w.ChunkRetryDeadline = 5 * time.Second
		return nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A refusal answers every request as Google Cloud Storage does who has no rights.
type refusal struct{}

func (refusal) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	const body = `{"error":{"code":403,"message":"no","errors":[{"message":"no","domain":"global","reason":"forbidden"}]}}`
	return &http.Response{
		StatusCode: http.StatusForbidden, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

func TestBlobStoreOnGoogleCloudStorage(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		New: func(t *testing.T) claimcheck.Store {
			return gcsStore(t, fakeGCS(t).URL(), gcsBucket, http.DefaultTransport)
		},
		Forbidden: func(t *testing.T) claimcheck.Store {
			return gcsStore(t, fakeGCS(t).URL(), gcsBucket, refusal{})
		},
		Unavailable: func(t *testing.T) claimcheck.Store {
			s := fakeGCS(t)
			s.Stop()
			return gcsStore(t, s.URL(), gcsBucket, http.DefaultTransport)
		},
	})
}
