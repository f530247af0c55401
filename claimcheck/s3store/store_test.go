package s3store_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/s3store"
	"github.com/watermill-envelope/envelope/claimcheck/storetest"
)

// protocols: a body is signed in another way over TLS.
var protocols = []struct {
	name string
	tls  bool
}{{"http", false}, {"https", true}}

func TestStore(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			storetest.Run(t, storetest.Harness{
				New: func(t *testing.T) claimcheck.Store { return newServer(t, p.tls).store(t) },
				Forbidden: func(t *testing.T) claimcheck.Store {
					s := newServer(t, p.tls)
					s.answerWith(http.StatusForbidden, "application/xml", s3Error("AccessDenied", "no"))
					return s.store(t)
				},
				Unavailable: func(t *testing.T) claimcheck.Store {
					return newStore(t, s3store.Config{Client: newServer(t, p.tls).s3(), Bucket: "no-such-bucket"})
				},
			})
		})
	}
}

func TestNewSaysAllThatIsWrong(t *testing.T) {
	_, err := s3store.New(s3store.Config{})
	for _, want := range []string{"Client", "Bucket"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not speak of %s", err, want)
		}
	}
	if err := (s3store.Config{Client: newServer(t, false).s3(), Bucket: bucket}).Validate(); err != nil {
		t.Error(err)
	}
}

// What is sent: nothing that only Amazon's own servers understand.
func TestRequests(t *testing.T) {
	const put, get, list, remove = 0, 1, 2, 3
	for _, p := range protocols {
		s := newServer(t, p.tls)
		store := s.store(t)
		k := key("acme")
		if err := store.Put(t.Context(), k, section("an object")); err != nil {
			t.Fatal(err)
		}
		if got, err := readAll(t.Context(), store, k, 3, 100); got != "object" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		for _, err := range store.List(t.Context(), "claims/tenant=acme/") {
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := store.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		requests := s.requests()
		if len(requests) != 4 {
			t.Fatalf("%d requests, want one for each call", len(requests))
		}
		for _, x := range []struct {
			of         int
			what, want string
		}{
			{put, requests[put].Method + " " + requests[put].URL.Path, "PUT /claims-bucket/claims/tenant=acme/dt=2026-09-24/01M39VMD8RA3C5HR4RBV67Y000"},
			{put, requests[put].Header.Get("If-None-Match"), "*"},
			{put, requests[put].Header.Get("Content-Length"), "9"},
			{put, requests[put].Header.Get("Content-Encoding"), ""},
			{put, requests[put].Header.Get("X-Amz-Trailer"), ""},
			{put, strings.Join(requests[put].TransferEncoding, ","), ""},
			{get, requests[get].Header.Get("Range"), "bytes=3-102"},
			{get, requests[get].Header.Get("Accept-Encoding"), "identity"},
			{get, requests[get].Header.Get("X-Amz-Checksum-Mode"), ""},
			{list, requests[list].URL.Path, "/claims-bucket"},
			{list, requests[list].URL.Query().Get("prefix"), "claims/tenant=acme/"},
			{remove, requests[remove].Method + " " + requests[remove].URL.Path, "DELETE /claims-bucket/" + k},
		} {
			if x.what != x.want {
				t.Errorf("%s, request %d: %q, want %q", p.name, x.of, x.what, x.want)
			}
		}
		for _, r := range requests {
			for name := range r.Header {
				if strings.Contains(name, "Checksum") {
					t.Errorf("%s: %s with %s: %q", p.name, r.Method, name, r.Header.Get(name))
				}
			}
		}
	}
}

// A source counts the bytes that are read of it.
type source struct{ read atomic.Int64 }

func (s *source) ReadAt(p []byte, _ int64) (int, error) {
	s.read.Add(int64(len(p)))
	return len(p), nil
}

// Bodies pass through: neither a put nor a get holds one in memory, and a put reads it no more
// often than it must, once for the signature where there is no TLS and once to send it.
func TestBodiesPassThrough(t *testing.T) {
	const size = 64 << 20
	for _, p := range protocols {
		s := newServer(t, p.tls)
		s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut {
				n, err := io.Copy(io.Discard, r.Body)
				if n != size || err != nil {
					t.Errorf("%s: %d bytes came, %v", p.name, n, err)
				}
				w.Header().Set("ETag", `"e"`)
				return true
			}
			w.Header().Set("Content-Range", "bytes 0-67108863/67108864")
			w.Header().Set("Content-Length", "67108864")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.CopyN(w, zeros{}, size)
			return true
		})
		store := s.store(t)
		src := &source{}
		allocated := allocates(func() {
			if err := store.Put(t.Context(), key("acme"), io.NewSectionReader(src, 0, size)); err != nil {
				t.Error(err)
			}
		})
		reads := int64(2)
		if p.tls {
			reads = 1
		}
		if n := src.read.Load(); n < reads*size || n > reads*size+1<<20 {
			t.Errorf("%s: a put of %d bytes read %d", p.name, int64(size), n)
		}
		if allocated > size/4 {
			t.Errorf("%s: a put of %d bytes allocated %d", p.name, int64(size), allocated)
		}
		allocated = allocates(func() {
			r, err := store.Get(t.Context(), key("acme"), 0, size)
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			if n, err := io.Copy(io.Discard, r); n != size || err != nil {
				t.Errorf("%s: read %d bytes, %v", p.name, n, err)
			}
		})
		if allocated > size/4 {
			t.Errorf("%s: a get of %d bytes allocated %d", p.name, int64(size), allocated)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// allocates returns how many bytes the process allocated during f.
func allocates(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestPutInput(t *testing.T) {
	s := newServer(t, false)
	store := newStore(t, s3store.Config{Client: s.s3(), Bucket: bucket, PutInput: func(in *s3.PutObjectInput) {
		tenant, _, _ := strings.Cut(strings.TrimPrefix(aws.ToString(in.Key), "claims/tenant="), "/")
		in.Tagging = aws.String("tenant=" + tenant)
		in.ServerSideEncryption, in.SSEKMSKeyId = types.ServerSideEncryptionAwsKms, aws.String("key-of-"+aws.ToString(in.Bucket))
		in.StorageClass = types.StorageClassStandardIa
		in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32
		// What is not its to change.
		in.Bucket, in.Key, in.Body, in.ContentLength = aws.String("other"), aws.String("other"), strings.NewReader("other"), aws.Int64(1)
	}})
	k := key("acme")
	if err := store.Put(t.Context(), k, section("an object")); err != nil {
		t.Fatal(err)
	}
	r := s.requests()[0]
	for name, want := range map[string]string{
		"X-Amz-Tagging": "tenant=acme", "X-Amz-Server-Side-Encryption": "aws:kms",
		"X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": "key-of-claims-bucket",
		"X-Amz-Storage-Class":                         "STANDARD_IA",
		"X-Amz-Checksum-Crc32":                        "vqIAEw==",
		"If-None-Match":                               "*",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got, err := readAll(t.Context(), store, k, 0, 100); got != "an object" || err != nil {
		t.Errorf("%q, %v; want the object, under its key", got, err)
	}
}

// A server without conditional writes can be used all the same.
func TestPutWithoutCondition(t *testing.T) {
	s := newServer(t, false)
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("If-None-Match") == "" {
			return false
		}
		refuse(w, http.StatusNotImplemented, "NotImplemented")
		return true
	})
	k := key("acme")
	if err := s.store(t).Put(t.Context(), k, section("an object")); err == nil {
		t.Error("a put succeeded that the server refused")
	}
	store := newStore(t, s3store.Config{Client: s.s3(), Bucket: bucket, PutInput: func(in *s3.PutObjectInput) { in.IfNoneMatch = nil }})
	for range 2 {
		if err := store.Put(t.Context(), k, section("an object")); err != nil {
			t.Error(err)
		}
	}
}
