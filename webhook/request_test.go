package webhook_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/webhook"
)

func codeOf(err error) webhook.Code {
	var e *webhook.Error
	var tooLarge *webhook.BodyTooLargeError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	case errors.As(err, &tooLarge):
		return webhook.CodeBodyTooLarge
	case errors.Is(err, errOutage):
		return webhook.CodeUnavailable
	}
	return "?"
}

func TestFromRequest(t *testing.T) {
	for _, tt := range requests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.o.Source == "" {
				tt.o.Source = "test"
			}
			r := parse(t, tt.raw)
			before := r.Header.Clone()
			start := time.Now().Truncate(time.Millisecond)
			e, err := webhook.FromRequest(r, tt.o)
			if code := codeOf(err); code != tt.code {
				t.Fatalf("got error %v, want code %q", err, tt.code)
			}
			if !reflect.DeepEqual(r.Header, before) {
				t.Errorf("the request's headers were changed to %v", r.Header)
			}
			if err != nil {
				if e != nil {
					t.Error("an envelope beside an error")
				}
				return
			}
			if e.ReceivedAt.Before(start) || e.ReceivedAt.After(time.Now()) || e.ReceivedAt.Nanosecond()%1e6 != 0 {
				t.Errorf("ReceivedAt = %v, want now in milliseconds", e.ReceivedAt)
			}
			if again, _ := webhook.FromRequest(parse(t, tt.raw), tt.o); e.ID == "" || again.ID == e.ID {
				t.Errorf("ID = %q, and then again %q", e.ID, again.ID)
			}
			if e.Body == nil {
				t.Error("the body is nil, want empty")
			}
			got := *e
			got.ID, got.ReceivedAt = "", time.Time{}
			if !reflect.DeepEqual(&got, &tt.want) {
				t.Errorf("got %s\nwant %s", dump(&got), dump(&tt.want))
			}
		})
	}
}

// dump prints an envelope with everything that its own Format hides.
func dump(e *envelope.Envelope) string {
	type open envelope.Envelope
	return fmt.Sprintf("%+v", (*open)(e))
}

func TestRequestErrors(t *testing.T) {
	o := webhook.RequestOptions{Source: "s", MaxBodyBytes: 4}
	var tooLarge *webhook.BodyTooLargeError
	_, err := webhook.FromRequest(parse(t, raw("secret")), o)
	if !errors.As(err, &tooLarge) || tooLarge.Max != 4 || !envelope.IsPermanent(err) {
		t.Errorf("got %#v, want a permanent BodyTooLargeError of 4", err)
	}

	// A cap that someone put on the body before.
	r := parse(t, raw("secret"))
	r.Body = http.MaxBytesReader(nil, r.Body, 3)
	r.ContentLength = -1
	if _, err = webhook.FromRequest(r, o); !errors.As(err, &tooLarge) || tooLarge.Max != 3 {
		t.Errorf("got %v, want a BodyTooLargeError of 3", err)
	}

	// Time runs out.
	r.Body = io.NopCloser(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("abc"))))
	_, err = webhook.FromRequest(r, o)
	if codeOf(err) != webhook.CodeIncompleteBody { // iotest's error says nothing of time
		t.Errorf("got %v", err)
	}
	r.Body = io.NopCloser(iotest.ErrReader(fmt.Errorf("read: %w", deadline{})))
	_, err = webhook.FromRequest(r, o)
	if codeOf(err) != webhook.CodeBodyTimeout || envelope.IsPermanent(err) || !envelope.IsTransient(err) || !errors.Is(err, deadline{}) {
		t.Errorf("got %v, want a transient body_timeout", err)
	}

	// The error of a DedupeFunc comes back as it is.
	o.DedupeFunc = func(http.Header, []byte) (string, error) { return "", errVerdict }
	if _, err = webhook.FromRequest(parse(t, raw("")), o); err != errVerdict {
		t.Errorf("got %v, want the function's own error", err)
	}
}

type deadline struct{}

func (deadline) Error() string   { return "too late" }
func (deadline) Timeout() bool   { return true }
func (deadline) Temporary() bool { return true }

// TestBodyOfAnySize reads a body in pieces, with and without a length that can be believed.
func TestBodyOfAnySize(t *testing.T) {
	for _, size := range []int{0, 1, 511, 512, 513, 65535, 65536, 65537, 200_000, 1 << 20} {
		body := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		for _, declared := range []int64{-1, 0, int64(size), int64(size) / 2, int64(size) + 10, math.MaxInt64} {
			for _, limit := range []int64{int64(size) + 10, int64(size), math.MaxInt64} {
				if limit == 0 || declared > limit {
					continue
				}
				r, err := http.NewRequest(http.MethodPost, "/", iotest.HalfReader(bytes.NewReader(body)))
				if err != nil {
					t.Fatal(err)
				}
				r.ContentLength = declared
				e, err := webhook.FromRequest(r, webhook.RequestOptions{Source: "s", MaxBodyBytes: limit})
				if err != nil || !bytes.Equal(e.Body, body) {
					t.Errorf("%d bytes, %d declared, at most %d: error %v", size, declared, limit, err)
				}
				if err == nil && cap(e.Body) != len(e.Body) {
					t.Errorf("%d bytes: the body has room for %d: an append would write into it", size, cap(e.Body))
				}
			}
		}
	}
}

func TestHeadersDropped(t *testing.T) {
	got := map[string]int{}
	o := webhook.RequestOptions{
		Source: "s", Forward: envelope.ForwardOptions{MaxHeaders: 2, MaxHeaderBytes: 20},
		HeadersDropped: func(reason string, n int) {
			if got[reason] != 0 {
				t.Errorf("%s is reported twice", reason)
			}
			got[reason] = n
		},
	}
	big := strings.Repeat("x", 20)
	if _, err := webhook.FromRequest(parse(t, raw("", "A: "+big, "B: 1", "C: "+big, "D: 1", "E: 1", "F: 1", "G: 1", "Cookie: 1")), o); err != nil {
		t.Fatal(err)
	}
	if want := map[string]int{"bytes": 2, "count": 3}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	clear(got)
	if _, err := webhook.FromRequest(parse(t, raw("", "B: 1")), o); err != nil || len(got) != 0 {
		t.Errorf("%v, %v: want no report where nothing was dropped", got, err)
	}
}

func TestRequestOptionsValidate(t *testing.T) {
	good := webhook.RequestOptions{
		Source: "s", Tenant: "t", Verify: webhook.Slack("a", "b"), OnFailure: webhook.Flag, DedupeHeader: "X-D",
		DropHeaders: []string{"A"}, HashHeaders: []string{"x-d"}, MaxBodyBytes: 1,
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	if err := (webhook.RequestOptions{Source: "s"}).Validate(); err != nil {
		t.Error(err)
	}
	bad := webhook.RequestOptions{
		Tenant: "\xff", Instance: "\xff", Region: "\xff", MaxBodyBytes: -1, OnFailure: 2, DedupeHeader: "X-D", DropHeaders: []string{"x-d"},
		DedupeFunc: func(http.Header, []byte) (string, error) { return "", nil },
		Verify:     webhook.GitHub(""), Forward: envelope.ForwardOptions{Mode: 9},
	}
	err := fmt.Sprint(bad.Validate(), (webhook.RequestOptions{Source: "\xff", OnFailure: webhook.Flag}).Validate())
	for _, want := range []string{
		"Source is empty", "Source is not UTF-8", "Tenant is not UTF-8", "Instance is not UTF-8", "Region is not UTF-8", "MaxBodyBytes -1",
		"OnFailure 2", "DedupeHeader and DedupeFunc", "is one of DropHeaders", "empty secret", "unknown ForwardMode 9", "OnFailure is Flag, but nothing is verified",
	} {
		if !strings.Contains(err, want) {
			t.Errorf("%s: want all mistakes, %q among them", err, want)
		}
	}
}

func TestStatusCode(t *testing.T) {
	for status, codes := range map[int][]webhook.Code{
		400: {webhook.CodeMissingID, webhook.CodeInvalidHeader, webhook.CodeIntegrity, webhook.CodeIncompleteBody, webhook.CodeRefused},
		401: {
			webhook.CodeInvalidSecret, webhook.CodeMissingHeader, webhook.CodeMalformedHeader, webhook.CodeInvalidTimestamp,
			webhook.CodeTimestampOutOfTolerance, webhook.CodeNoMatchingSignature, webhook.CodeVerificationFailed,
		},
		404: {webhook.CodeNotFound},
		405: {webhook.CodeNotAllowed},
		408: {webhook.CodeBodyTimeout},
		413: {webhook.CodeBodyTooLarge, webhook.CodeMessageTooLarge},
		500: {webhook.CodeInvalidOptions, webhook.CodeInternal, "something else"},
		503: {webhook.CodeOverloaded, webhook.CodePublishFailed, webhook.CodeUnavailable},
	} {
		for _, code := range codes {
			err := &webhook.Error{Code: code, Err: errVerdict}
			if got := webhook.StatusCode(fmt.Errorf("wrapped: %w", err)); got != status {
				t.Errorf("%s: %d, want %d", code, got, status)
			}
			transient := slices.Contains([]webhook.Code{
				webhook.CodeIncompleteBody, webhook.CodeBodyTimeout, webhook.CodeOverloaded, webhook.CodePublishFailed, webhook.CodeUnavailable,
			}, code)
			if envelope.IsTransient(err) != transient || envelope.IsPermanent(err) == transient {
				t.Errorf("%s: transient %v, permanent %v", code, envelope.IsTransient(err), envelope.IsPermanent(err))
			}
		}
	}
	for _, tt := range []struct {
		err  error
		want int
	}{
		{&webhook.BodyTooLargeError{Max: 1}, 413},
		{&envelope.TooLargeError{Size: 2, Max: 1}, 413},
		{envelope.Transient(errVerdict), 503},
		{envelope.Permanent(errVerdict), 400},
		{errVerdict, 500},
	} {
		if got := webhook.StatusCode(tt.err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
}
