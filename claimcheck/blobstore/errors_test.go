package blobstore_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"strings"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/blobstore"
)

func TestNewSaysAllThatIsWrong(t *testing.T) {
	_, err := blobstore.New(blobstore.Config{WriterOptions: blob.WriterOptions{ContentMD5: []byte("x")}})
	for _, want := range []string{"Bucket", "ContentMD5"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not speak of %s", err, want)
		}
	}
}

func TestErrorCodes(t *testing.T) {
	const (
		none        = claimcheck.Code("")
		exists      = claimcheck.CodeExists
		notFound    = claimcheck.CodeNotFound
		forbidden   = claimcheck.CodeForbidden
		unavailable = claimcheck.CodeUnavailable
	)
	const secret = "https://storage.example.com/b/k?sig=SECRET"
	said := errors.New("the service says " + secret)
	google := func(status int) error { return &googleapi.Error{Code: status, Message: secret, Body: secret} }
	code := func(c gcerrors.ErrorCode, err error) error { return coded{err, c} }
	missing := code(gcerrors.NotFound, said)
	for _, x := range []struct {
		why string
		s   script
		op  string
		ok  claimcheck.Code
	}{
		{"missing", script{read: missing}, "get", notFound},
		{"missing, and we may not list", script{read: missing, list: code(gcerrors.NotFound, google(403))}, "get", notFound},
		{"missing, and lists fail", script{read: missing, list: said}, "get", notFound},
		{"the bucket is missing", script{read: missing, list: missing}, "get", unavailable},
		{"gcsblob's 403", script{read: code(gcerrors.NotFound, google(403))}, "get", forbidden},
		{"missing already", script{remove: missing}, "delete", none},
		{"the bucket is missing", script{remove: missing, list: missing}, "delete", unavailable},
		{"gcsblob's 403", script{remove: code(gcerrors.NotFound, google(403))}, "delete", forbidden},
		{"the bucket is missing", script{list: missing}, "list", unavailable},
		{"gcsblob's 403", script{list: code(gcerrors.NotFound, google(403))}, "list", forbidden},
		{"the bucket is missing", script{write: missing}, "put", unavailable},
		{"taken", script{write: code(gcerrors.FailedPrecondition, said)}, "put", exists},
		{"taken, in other words", script{write: code(gcerrors.AlreadyExists, said)}, "put", exists},
		{"no condition was set", script{read: code(gcerrors.FailedPrecondition, said), size: 100}, "get", unavailable},
		{"credentials", script{write: google(401)}, "put", forbidden},
		{"rights", script{write: code(gcerrors.PermissionDenied, said)}, "put", forbidden},
		{"rights", script{read: code(gcerrors.PermissionDenied, said), size: 100}, "get", forbidden},
		{"rights on a folder", script{write: &fs.PathError{Op: "open", Path: "/secret", Err: fs.ErrPermission}}, "put", forbidden},
		{"busy", script{write: google(503)}, "put", unavailable},
		{"throttled", script{read: code(gcerrors.ResourceExhausted, said), size: 100}, "get", unavailable},
		{"our mistake", script{read: code(gcerrors.InvalidArgument, said), size: 100}, "get", unavailable},
		{"unknown", script{read: said, size: 100}, "get", unavailable},
		{"a time-out of the client's own", script{read: code(gcerrors.Unknown, context.DeadlineExceeded), size: 100}, "get", unavailable},
		{"a connection", script{list: &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")}}, "list", unavailable},
		{"no such host, which azureblob takes for no such object", script{
			read: code(gcerrors.NotFound, &net.DNSError{Err: "no such host", Name: "account.example.com"}),
			list: code(gcerrors.NotFound, &net.DNSError{Err: "no such host", Name: "account.example.com"}),
		}, "get", unavailable},
		{"a range behind the end", script{read: google(416), size: 5}, "get", none},
		{"a range of an empty object", script{read: said, size: 0}, "get", none},
		{"a range that is there", script{read: google(416), size: 6}, "get", unavailable},
		{"a range of who knows what", script{read: google(416), size: 5, attributes: google(500)}, "get", unavailable},
	} {
		err := call(&x.s, x.op)
		var e *claimcheck.Error
		switch {
		case x.ok == none:
			if err != nil {
				t.Errorf("%s (%s): %v", x.why, x.op, err)
			}
		case !errors.As(err, &e) || e.Code != x.ok || e.Op != x.op || e.Key == "":
			t.Errorf("%s (%s): %v, want %s", x.why, x.op, err, x.ok)
		case strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "/secret"):
			t.Errorf("%s (%s): the text says what the service said: %v", x.why, x.op, err)
		}
	}
}

func TestErrorKeepsTheBucketsError(t *testing.T) {
	err := call(&script{write: &googleapi.Error{Code: 503, Message: "backend"}}, "put")
	var g *googleapi.Error
	var e *claimcheck.Error
	if !errors.As(err, &g) || g.Message != "backend" || !errors.As(err, &e) || e.Status != 503 {
		t.Errorf("the bucket's error is not in %v", err)
	}
	const want = `claimcheck: put: unavailable key "claims/tenant=acme/dt=2026-09-24/01M39VMD8RA3C5HR4RBV67Y000" (HTTP status 503): the bucket answers Unknown`
	if err.Error() != want {
		t.Errorf("text\n%s, want\n%s", err, want)
	}
}

// Asked for [5, 15): what comes must be what the size of the object makes of it.
func TestShortAnswers(t *testing.T) {
	for _, x := range []struct {
		body  string
		size  int64
		want  string
		fails bool
		why   string
	}{
		{"0123456789", 100, "0123456789", false, "all of it"},
		{"0123456789xyz", 100, "0123456789", false, "more than was asked for"},
		{"0123", 9, "0123", false, "the object ends before"},
		{"0123xyz", 9, "0123", false, "more than the object has"},
		{"", 5, "", false, "the object ends there"},
		{"xyz", 3, "", false, "the object ends before it begins"},
		{"01234", 100, "01234", true, "cut short"},
		{"", 100, "", true, "cut before it began"},
		{"012", 9, "012", true, "cut short at the end of the object"},
	} {
		store := newStore(t, blobstore.Config{Bucket: closing(t, blob.NewBucket(&script{body: x.body, size: x.size}))})
		got, err := readAll(store, 5, 10)
		if got != x.want || (err != nil) != x.fails {
			t.Errorf("%s: %q, %v", x.why, got, err)
		}
		if err != nil && (!errors.Is(err, claimcheck.ErrUnavailable) || errors.Is(err, io.EOF)) {
			t.Errorf("%s: %v, want unavailable, without an EOF", x.why, err)
		}
	}
}

func TestPutOptions(t *testing.T) {
	s := &script{}
	store := newStore(t, blobstore.Config{Bucket: closing(t, blob.NewBucket(s)), WriterOptions: blob.WriterOptions{
		BufferSize: 1234, MaxConcurrency: 5, Metadata: map[string]string{"team": "a"},
		BeforeWrite: func(func(any) bool) error { return nil },
	}})
	if err := store.Put(t.Context(), key(), io.NewSectionReader(strings.NewReader("an object"), 0, 9)); err != nil {
		t.Fatal(err)
	}
	if o := s.got; !o.IfNotExist || o.BufferSize != 1234 || o.MaxConcurrency != 5 || o.Metadata["team"] != "a" || o.BeforeWrite == nil {
		t.Errorf("options %+v", o)
	}
	if s.typ != "application/octet-stream" || string(s.put) != "an object" {
		t.Errorf("put %q of type %q", s.put, s.typ)
	}
}
