package s3store_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/s3store"
)

// call runs one operation of a store that is named as in Error.Op.
func call(ctx context.Context, s *s3store.Store, op string) error {
	k := key("acme")
	switch op {
	case "put":
		return s.Put(ctx, k, section("an object"))
	case "get":
		_, err := readAll(ctx, s, k, 0, 100)
		return err
	case "delete":
		return s.Delete(ctx, k)
	}
	var last error
	for _, err := range s.List(ctx, "claims/") {
		last = err
	}
	return last
}

var all = []string{"put", "get", "list", "delete"}

func TestErrorCodes(t *testing.T) {
	const (
		exists      = claimcheck.CodeExists
		notFound    = claimcheck.CodeNotFound
		forbidden   = claimcheck.CodeForbidden
		unavailable = claimcheck.CodeUnavailable
		none        = claimcheck.Code("")
	)
	xml := func(code string) string { return s3Error(code, "MESSAGE") }
	const page = "<!DOCTYPE html><html><head><title>MESSAGE</title><br></head></html>"
	for _, x := range []struct {
		why    string
		status int
		body   string
		ops    []string
		want   claimcheck.Code
	}{
		{"taken", 412, xml("PreconditionFailed"), []string{"put"}, exists},
		{"no condition was set", 412, xml("PreconditionFailed"), []string{"get", "list", "delete"}, unavailable},
		{"another put is under way", 409, xml("ConditionalRequestConflict"), []string{"put"}, unavailable},
		{"missing", 404, xml("NoSuchKey"), []string{"get"}, notFound},
		{"missing, from a server of few words", 404, "", []string{"get"}, notFound},
		{"missing already", 404, xml("NoSuchKey"), []string{"delete"}, none},
		{"a bucket is configuration", 404, xml("NoSuchBucket"), all, unavailable},
		{"no S3 server", 404, page, all, unavailable},
		{"no S3 server", 404, "404 page not found\n", all, unavailable},
		{"no S3 server", 404, `{"error":"not_found"}`, all, unavailable},
		{"empty range", 416, xml("InvalidRange"), []string{"get"}, none},
		{"empty range, from a server of few words", 416, "", []string{"get"}, none},
		{"no S3 server", 416, page, []string{"get"}, unavailable},
		{"no rights", 403, xml("AccessDenied"), all, forbidden},
		{"unknown key", 403, xml("InvalidAccessKeyId"), all, forbidden},
		{"wrong secret", 403, xml("SignatureDoesNotMatch"), all, forbidden},
		{"our clock", 403, xml("RequestTimeTooSkewed"), all, forbidden},
		{"a proxy", 403, page, all, forbidden},
		{"few words", 403, "", all, forbidden},
		{"old credentials", 400, xml("ExpiredToken"), all, forbidden},
		{"bad credentials", 400, xml("InvalidToken"), all, forbidden},
		{"another region's signature", 400, xml("AuthorizationHeaderMalformed"), all, forbidden},
		{"versitygw's unknown key", 404, xml("XAdminUserNotFound"), all, forbidden},
		{"no credentials", 401, page, all, forbidden},
		{"another region's bucket", 301, xml("PermanentRedirect"), all, unavailable},
		{"bad request", 400, xml("InvalidRequest"), all, unavailable},
		{"busy", 503, xml("SlowDown"), all, unavailable},
		{"broken", 500, xml("InternalError"), all, unavailable},
		{"a proxy", 502, page, all, unavailable},
		{"throttled", 429, xml("TooManyRequests"), all, unavailable},
		{"a page of something in between", 200, page, []string{"put", "get", "list"}, unavailable},
		{"nothing", 200, "", []string{"put", "get", "list"}, unavailable},
		{"a list of nothing", 200, "<ListBucketResult></ListBucketResult>", []string{"put", "get", "list"}, unavailable},
		{"no content", 204, "", []string{"put", "get", "list"}, unavailable},
	} {
		s := newServer(t, false)
		contentType := "application/xml"
		if !strings.HasPrefix(x.body, "<?xml") {
			contentType = "text/html"
		}
		s.answerWith(x.status, contentType, x.body)
		store := s.store(t)
		for _, op := range x.ops {
			err := call(t.Context(), store, op)
			var e *claimcheck.Error
			switch {
			case x.want == none:
				if err != nil {
					t.Errorf("%s (%d to a %s): %v", x.why, x.status, op, err)
				}
				continue
			case !errors.As(err, &e) || e.Code != x.want || e.Op != op:
				t.Errorf("%s (%d to a %s): %v, want %s", x.why, x.status, op, err, x.want)
				continue
			}
			if x.status >= 300 && e.Status != x.status {
				t.Errorf("%s (%d to a %s): status %d", x.why, x.status, op, e.Status)
			}
			hidesSecrets(t, s, err)
			if strings.Contains(err.Error(), "MESSAGE") {
				t.Errorf("%s (%d to a %s): the text says what the server said: %v", x.why, x.status, op, err)
			}
		}
	}
}

// hidesSecrets checks that a text has neither the endpoint nor anything of the credentials.
func hidesSecrets(t *testing.T, s *server, err error) {
	t.Helper()
	for _, secret := range []string{s.url, "http://", "https://", accessKey, secretKey, "X-Amz-", "x-id="} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the text has %q: %v", secret, err)
		}
	}
}

// What S3 says beyond its code can be had by who asks for it.
func TestErrorKeepsTheClientsError(t *testing.T) {
	s := newServer(t, false)
	s.answerWith(403, "application/xml", s3Error("AccessDenied", "user x may not"))
	err := call(t.Context(), s.store(t), "get")
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != "AccessDenied" || api.ErrorMessage() != "user x may not" {
		t.Errorf("the client's error is not in %v", err)
	}
	const want = `claimcheck: get: forbidden key "claims/tenant=acme/dt=2026-09-24/01M39VMD8RA3C5HR4RBV67Y000" (HTTP status 403): answer "AccessDenied", request "REQ1"`
	if err.Error() != want {
		t.Errorf("text\n%s, want\n%s", err, want)
	}
}

// A code is text of the server's too.
func TestErrorBoundsWhatTheServerSays(t *testing.T) {
	s := newServer(t, false)
	s.answerWith(500, "application/xml", s3Error("http://u:p@h/"+strings.Repeat("x", 1<<20), ""))
	err := call(t.Context(), s.store(t), "get")
	if err == nil || len(err.Error()) > 400 || strings.Contains(err.Error(), "u:p") {
		t.Errorf("text of %d bytes: %.400s", len(err.Error()), err)
	}
}

func TestErrorsWithoutAnAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().String()
	l.Close()
	for _, x := range []struct {
		why    string
		change func(*s3.Options)
		fault  func(http.ResponseWriter, *http.Request) bool
		text   string
	}{
		{"nothing listens", func(o *s3.Options) { o.BaseEndpoint = aws.String("http://" + free) }, nil, "connect"},
		{"an endpoint with a password", func(o *s3.Options) { o.BaseEndpoint = aws.String("http://user:" + secretKey + "@" + free) }, nil, "connect"},
		{"an endpoint that is no URL", func(o *s3.Options) { o.BaseEndpoint = aws.String("http://user:" + secretKey + "@:x/%zz") }, nil, ""},
		{"no credentials", func(o *s3.Options) {
			o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{}, errors.New("nothing at http://169.254.169.254/?token=" + secretKey)
			})
		}, nil, "nothing at (URL)"},
		{"the connection breaks", nil, func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, "EOF"},
		{"a redirect in circles", nil, func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Location", r.URL.Path+"?X-Amz-Signature="+secretKey)
			w.WriteHeader(http.StatusTemporaryRedirect)
			return true
		}, ""},
	} {
		s := newServer(t, false)
		if x.fault != nil {
			s.setFault(x.fault)
		}
		var changes []func(*s3.Options)
		if x.change != nil {
			changes = append(changes, x.change)
		}
		for _, op := range all {
			err := call(t.Context(), s.store(t, changes...), op)
			if !errors.Is(err, claimcheck.ErrUnavailable) || !envelope.IsTransient(err) {
				t.Errorf("%s: %s: %v, want unavailable", x.why, op, err)
				continue
			}
			if !strings.Contains(err.Error(), x.text) {
				t.Errorf("%s: %s: %v does not say %q", x.why, op, err, x.text)
			}
			hidesSecrets(t, s, err)
		}
	}
}

func TestContextEndsWhileTheServerHangs(t *testing.T) {
	for _, op := range all {
		s := newServer(t, false)
		ctx, cancel := context.WithCancel(t.Context())
		s.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
			_, _ = io.Copy(io.Discard, r.Body)
			cancel()
			<-r.Context().Done()
			return true
		})
		err := call(ctx, s.store(t), op)
		if !errors.Is(err, claimcheck.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", op, err)
		}
		cancel()
	}
}
