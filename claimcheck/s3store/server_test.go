package s3store_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/s3store"
)

const (
	bucket    = "claims-bucket"
	accessKey = "AKIDEXAMPLE"
	secretKey = "wJalrXUtnFEMI-SECRET"
)

// A server speaks as much of S3 as a store needs. It checks no signatures.
type server struct {
	url    string
	client *http.Client
	delay  time.Duration

	mu      sync.Mutex
	objects map[string][]byte
	seen    []*http.Request
	// fault may answer a request in the server's place.
	fault func(w http.ResponseWriter, r *http.Request) bool
}

// newServer starts a server, over TLS or not.
func newServer(t testing.TB, tls bool) *server {
	t.Helper()
	s := &server{objects: map[string][]byte{}}
	h := httptest.NewUnstartedServer(s)
	h.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of the faults
	if tls {
		h.StartTLS()
	} else {
		h.Start()
	}
	t.Cleanup(h.Close)
	s.url, s.client = h.URL, h.Client()
	return s
}

// s3 returns a client of the server that makes one attempt, after the changes.
func (s *server) s3(changes ...func(*s3.Options)) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(s.url), UsePathStyle: true, Region: "eu-central-1",
		HTTPClient: s.client, RetryMaxAttempts: 1,
		// As config.LoadDefaultConfig has them.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey}, nil
		}),
	}, changes...)
}

func (s *server) store(t testing.TB, changes ...func(*s3.Options)) *s3store.Store {
	t.Helper()
	return newStore(t, s3store.Config{Client: s.s3(changes...), Bucket: bucket})
}

func newStore(t testing.TB, c s3store.Config) *s3store.Store {
	t.Helper()
	store, err := s3store.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// answerWith lets the server answer everything with one status and body.
func (s *server) answerWith(status int, contentType, body string) {
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body) // or the connection may be reset before the answer is read
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		io.WriteString(w, body)
		return true
	})
}

func (s *server) setFault(f func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// requests returns those that came since the last call.
func (s *server) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

func s3Error(code, message string) string {
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>%s</Code><Message>%s</Message><Resource>/x</Resource><RequestId>REQ1</RequestId></Error>`, code, message)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	io.WriteString(w, s3Error(code, "as S3 says it"))
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, r)
	fault := s.fault
	s.mu.Unlock()
	if s.delay > 0 {
		time.Sleep(s.delay) // the way there and back
	}
	if fault != nil && fault(w, r) {
		return
	}
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case name != bucket:
		refuse(w, http.StatusNotFound, "NoSuchBucket")
	case r.Method == http.MethodPut:
		s.put(w, r, key)
	case r.Method == http.MethodGet && r.URL.Query().Get("list-type") == "2":
		s.list(w, r.URL.Query())
	case r.Method == http.MethodGet:
		s.get(w, r, key)
	case r.Method == http.MethodDelete:
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed")
	}
}

func (s *server) put(w http.ResponseWriter, r *http.Request, key string) {
	body, err := io.ReadAll(r.Body)
	if err != nil || int64(len(body)) != r.ContentLength {
		refuse(w, http.StatusBadRequest, "IncompleteBody")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.objects[key]; taken && r.Header.Get("If-None-Match") == "*" {
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	s.objects[key] = body
	w.Header().Set("ETag", `"e"`)
}

func (s *server) get(w http.ResponseWriter, r *http.Request, key string) {
	s.mu.Lock()
	body, ok := s.objects[key]
	s.mu.Unlock()
	if !ok {
		refuse(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	var first, last int
	if n, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); n != 2 || err != nil || first > last {
		_, _ = w.Write(body)
		return
	}
	if first >= len(body) {
		refuse(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
		return
	}
	last = min(last, len(body)-1)
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(body)))
	w.Header().Set("Content-Length", fmt.Sprint(last-first+1))
	w.WriteHeader(http.StatusPartialContent)
	_, _ = w.Write(body[first : last+1])
}

// A listing is what ListObjectsV2 answers.
type listing struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Name                  string   `xml:",omitempty"`
	EncodingType          string   `xml:",omitempty"`
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []content
}

type content struct{ Key string }

func (s *server) list(w http.ResponseWriter, query url.Values) {
	s.mu.Lock()
	keys := slices.Sorted(maps.Keys(s.objects))
	s.mu.Unlock()
	l := listing{Name: bucket, EncodingType: query.Get("encoding-type")}
	for _, key := range keys {
		if !strings.HasPrefix(key, query.Get("prefix")) || key <= query.Get("continuation-token") {
			continue
		}
		if len(l.Contents) == 1000 {
			l.IsTruncated = true
			break
		}
		l.NextContinuationToken = key
		if l.EncodingType == "url" {
			key = strings.ReplaceAll(url.QueryEscape(key), "%2F", "/")
		}
		l.Contents = append(l.Contents, content{key})
	}
	w.Header().Set("Content-Type", "application/xml")
	page, _ := xml.Marshal(l)
	// S3 writes characters that XML has not, and no reader takes them.
	_, _ = w.Write(bytes.ReplaceAll(page, []byte("\uFFFD"), []byte("&#x1;")))
}

// key returns the key of a pack of a tenant.
func key(tenant string) string {
	ref, err := claimcheck.NewRef(tenant, "01M39VMD8RA3C5HR4RBV67Y000")
	if err != nil {
		panic(err)
	}
	return ref.Key()
}

func section(s string) *io.SectionReader {
	return io.NewSectionReader(strings.NewReader(s), 0, int64(len(s)))
}

func readAll(ctx context.Context, s claimcheck.Store, key string, off, n int64) (string, error) {
	r, err := s.Get(ctx, key, off, n)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}
