package s3store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/s3store"
)

// A scripted client answers every GetObject with one range and body.
type scripted struct {
	s3store.Client
	contentRange string
	body         io.Reader
}

func (c scripted) GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	out := &s3.GetObjectOutput{Body: io.NopCloser(c.body)}
	if c.contentRange != "" {
		out.ContentRange = aws.String(c.contentRange)
	}
	return out, nil
}

// Asked for [10, 30): what an answer says of its range decides what is taken from it.
var ranges = []struct {
	contentRange string
	body         int // bytes that come
	want         int // bytes that are read; -1: none, and the answer is refused
	fails        bool
	why          string
}{
	{"bytes 10-29/100", 20, 20, false, "all of it"},
	{"bytes 10-29/30", 20, 20, false, "up to the end"},
	{"bytes 10-29/*", 20, 20, false, "an object of a size that is not said"},
	{"bytes 10-19/20", 10, 10, false, "the object ends before"},
	{"bytes 10-10/11", 1, 1, false, "one byte is left"},
	{"bytes 10-29/100", 25, 20, false, "never more than was announced"},
	{"bytes 10-29/100", 19, 19, true, "cut short"},
	{"bytes 10-29/100", 0, 0, true, "cut before it began"},
	{"bytes 10-19/20", 9, 9, true, "cut short at the end of the object"},
	{"", 20, -1, false, "no range: a page, or the whole object"},
	{"bytes 10-19/100", 10, -1, false, "a part, of an object that has more"},
	{"bytes 10-19/*", 10, -1, false, "a part, of an object that may have more"},
	{"bytes 0-19/100", 20, -1, false, "from another place"},
	{"bytes 11-29/100", 19, -1, false, "from another place"},
	{"bytes 10-30/100", 21, -1, false, "too much"},
	{"bytes 10-9/100", 0, -1, false, "backwards"},
	{"bytes */100", 0, -1, false, "of no range"},
	{"bytes=10-29/100", 20, -1, false, "spelt as a request"},
	{"bytes 10-29", 20, -1, false, "no size"},
	{"10-29/100", 20, -1, false, "no unit"},
	{"items 10-29/100", 20, -1, false, "another unit"},
	{"bytes +10-29/100", 20, -1, false, "not digits"},
	{"bytes 10-0x1d/100", 20, -1, false, "not digits"},
	{"bytes 10-99999999999999999999/100", 20, -1, false, "beyond all numbers"},
	{"bytes 10--29/100", 20, -1, false, "a sign"},
}

func TestContentRange(t *testing.T) {
	for _, x := range ranges {
		body := strings.Repeat("0123456789", 10)[:x.body]
		s := newStore(t, s3store.Config{Client: scripted{contentRange: x.contentRange, body: strings.NewReader(body)}, Bucket: bucket})
		got, err := readAll(t.Context(), s, key("acme"), 10, 20)
		refused := x.want < 0
		if got != body[:max(x.want, 0)] || (err != nil) != (refused || x.fails) {
			t.Errorf("%q with %d bytes (%s): read %d, %v", x.contentRange, x.body, x.why, len(got), err)
		}
		if err != nil && (!errors.Is(err, claimcheck.ErrUnavailable) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
			t.Errorf("%q with %d bytes (%s): %v, want unavailable, without an EOF", x.contentRange, x.body, x.why, err)
		}
	}
}

func FuzzContentRange(f *testing.F) {
	for _, x := range ranges {
		f.Add(x.contentRange, int64(10), int64(20), uint16(x.body))
	}
	f.Fuzz(func(t *testing.T, contentRange string, off, n int64, length uint16) {
		if off < 0 || n < 1 || off+n < off {
			return // the caller's duty
		}
		body := strings.Repeat("x", int(length))
		s := newStore(t, s3store.Config{Client: scripted{contentRange: contentRange, body: strings.NewReader(body)}, Bucket: bucket})
		got, err := readAll(t.Context(), s, key("acme"), off, n)
		if int64(len(got)) > n || len(got) > len(body) {
			t.Fatalf("read %d bytes of %d, asked for %d", len(got), len(body), n)
		}
		if err != nil {
			if !errors.Is(err, claimcheck.ErrUnavailable) {
				t.Fatalf("%v, want unavailable", err)
			}
			return
		}
		// Nothing but an answer that names exactly what came is taken for good.
		if prefix := fmt.Sprintf("bytes %d-%d/", off, off+int64(len(got))-1); !sameNumbers(contentRange, prefix) {
			t.Fatalf("took %d bytes at %d of %q", len(got), off, contentRange)
		}
	})
}

// sameNumbers reports whether a Content-Range begins as want, which has no leading zeros.
func sameNumbers(contentRange, want string) bool {
	var first, last int64
	if _, err := fmt.Sscanf(contentRange, "bytes %d-%d/", &first, &last); err != nil {
		return false
	}
	return fmt.Sprintf("bytes %d-%d/", first, last) == want
}

// A connection that breaks is no shorter object.
func TestCutConnection(t *testing.T) {
	for _, p := range protocols {
		for _, announced := range []bool{true, false} {
			s := newServer(t, p.tls)
			s.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Range", "bytes 0-99999/100000")
				if announced {
					w.Header().Set("Content-Length", "100000")
				}
				w.WriteHeader(http.StatusPartialContent)
				io.WriteString(w, strings.Repeat("x", 70_000))
				_ = http.NewResponseController(w).Flush()
				if announced {
					panic(http.ErrAbortHandler)
				}
				return true // an end that looks like one
			})
			got, err := readAll(t.Context(), s.store(t), key("acme"), 0, 100_000)
			if !errors.Is(err, claimcheck.ErrUnavailable) {
				t.Errorf("%s, announced %t: read %d bytes, %v", p.name, announced, len(got), err)
			}
		}
	}
}

// Each attempt sends the whole body.
func TestRetries(t *testing.T) {
	quick := func(o *s3.Options) {
		o.RetryMaxAttempts = 0
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = 3
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		})
	}
	body := strings.Repeat("0123456789", 10_000)
	for _, p := range protocols {
		s := newServer(t, p.tls)
		failures := 2
		s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			if failures == 0 {
				return false
			}
			failures--
			_, _ = io.CopyN(io.Discard, r.Body, 12_345)
			refuse(w, http.StatusServiceUnavailable, "SlowDown")
			return true
		})
		store := s.store(t, quick)
		if err := store.Put(t.Context(), key("acme"), section(body)); err != nil {
			t.Fatal(err)
		}
		if n := len(s.requests()); n != 3 {
			t.Errorf("%s: %d requests", p.name, n)
		}
		if got, err := readAll(t.Context(), store, key("acme"), 0, 1<<30); got != body || err != nil {
			t.Errorf("%s: %d bytes, %v", p.name, len(got), err)
		}
	}
	// The answer is lost, and the second attempt finds the object of the first.
	s := newServer(t, false)
	lose := true
	s.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if !lose || r.Method != http.MethodPut {
			return false
		}
		lose = false
		s.put(discard{}, r, strings.TrimPrefix(r.URL.Path, "/"+bucket+"/"))
		panic(http.ErrAbortHandler)
	})
	store := s.store(t, quick)
	if err := store.Put(t.Context(), key("acme"), section(body)); !errors.Is(err, claimcheck.ErrExists) {
		t.Errorf("after a lost answer: %v, want that the key is taken, so that the checker takes another", err)
	}
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) WriteHeader(int)             {}
func (discard) Write(p []byte) (int, error) { return len(p), nil }

// A bucket may hold what others put there, and a server may page as it likes.
func TestList(t *testing.T) {
	s := newServer(t, false)
	k := key("acme")
	for _, other := range []string{"x", "claims/", "claims/tenant=acme/dt=2026-09-24/", k + ".tmp", k + "\x01", "claims/tenant=acme/\x7f&<>%zz+ ü", "claims/tenant=a/../" + k} {
		s.objects[other] = nil
	}
	s.objects[k] = []byte("an object")
	for _, prefix := range []string{"", "claims/tenant=", "claims/tenant=acme/", k} {
		var got []string
		for key, err := range s.store(t).List(t.Context(), prefix) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, key)
		}
		if !slices.Equal(got, []string{k}) {
			t.Errorf("List of %q: %q", prefix, got)
		}
	}

	// What no key begins with is not asked for: some servers refuse it.
	s.requests()
	for _, prefix := range []string{"x", "claims/x", "claims/tenant=a/../", "claims/tenant=\x00", "claims/tenant=" + strings.Repeat("a", 1100)} {
		for key, err := range s.store(t).List(t.Context(), prefix) {
			t.Errorf("List of %.40q: %q, %v", prefix, key, err)
		}
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests for prefixes that no key has", n)
	}

	for _, x := range []struct{ why, page string }{
		{"goes round in circles", `<IsTruncated>true</IsTruncated><NextContinuationToken>same</NextContinuationToken>`},
		{"does not say where it goes on", `<IsTruncated>true</IsTruncated>`},
	} {
		s := newServer(t, false)
		s.answerWith(http.StatusOK, "application/xml", "<ListBucketResult><Name>b</Name>"+x.page+"</ListBucketResult>")
		if err := call(t.Context(), s.store(t), "list"); !errors.Is(err, claimcheck.ErrUnavailable) {
			t.Errorf("a list that %s: %v", x.why, err)
		}
	}
}

// PutObject reads the body as a client does that asks no context, and stores what it has.
func (c scripted) PutObject(_ context.Context, in *s3.PutObjectInput, _ ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	if _, err := io.Copy(io.Discard, in.Body); err != nil {
		return nil, err
	}
	return &s3.PutObjectOutput{ETag: aws.String(`"e"`)}, nil
}

// An ending is an object in whose last read the context ends.
type ending struct{ end func() }

func (e ending) ReadAt(p []byte, _ int64) (int, error) {
	e.end()
	return len(p), nil
}

// A context that ends counts, also when the last byte is there already.
func TestContextEndsWithTheLastByte(t *testing.T) {
	s := newStore(t, s3store.Config{Client: scripted{contentRange: "bytes 0-9/10", body: strings.NewReader("0123456789")}, Bucket: bucket})
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.Put(ctx, key("acme"), io.NewSectionReader(ending{cancel}, 0, 10)); !errors.Is(err, context.Canceled) {
		t.Errorf("Put: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	r, err := s.Get(ctx, key("acme"), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cancel()
	if n, err := r.Read(make([]byte, 10)); n != 0 || !errors.Is(err, context.Canceled) || !errors.Is(err, claimcheck.ErrUnavailable) {
		t.Errorf("Read: %d bytes, %v", n, err)
	}
}
