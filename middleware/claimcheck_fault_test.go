package middleware_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

var errDown = &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: "put", Err: errors.New("connection refused")}

// Whatever happens to the put, nothing is published that could not be redeemed, and the next
// attempt succeeds.
func TestFaultsOfCheckIn(t *testing.T) {
	tests := []struct {
		rule      string
		put       func(s *store) func(context.Context, string, *io.SectionReader) error
		permanent bool
		is        error
		text      string
	}{
		{"the store is down before the put", func(*store) func(context.Context, string, *io.SectionReader) error {
			return func(context.Context, string, *io.SectionReader) error { return errDown }
		}, false, claimcheck.ErrUnavailable, "connection refused"},
		{"it goes down during the put", func(*store) func(context.Context, string, *io.SectionReader) error {
			return func(_ context.Context, _ string, obj *io.SectionReader) error {
				_, _ = io.CopyN(io.Discard, obj, obj.Size()/2)
				return errDown
			}
		}, false, claimcheck.ErrUnavailable, "connection refused"},
		{"the put succeeds and its answer is lost", func(s *store) func(context.Context, string, *io.SectionReader) error {
			return func(ctx context.Context, key string, obj *io.SectionReader) error {
				if err := s.Store.Put(ctx, key, obj); err != nil {
					t.Error(err)
				}
				return errDown
			}
		}, false, claimcheck.ErrUnavailable, "connection refused"},
		{"the store refuses us", func(*store) func(context.Context, string, *io.SectionReader) error {
			return func(_ context.Context, key string, _ *io.SectionReader) error {
				return &claimcheck.Error{Code: claimcheck.CodeForbidden, Op: "put", Key: key, Status: 403}
			}
		}, false, claimcheck.ErrForbidden, "(HTTP status 403)"},
		{"an error that the store did not translate", func(*store) func(context.Context, string, *io.SectionReader) error {
			return func(context.Context, string, *io.SectionReader) error { return errors.New("disk full") }
		}, false, nil, "disk full"},
		{"an error that is for good", func(*store) func(context.Context, string, *io.SectionReader) error {
			return func(_ context.Context, key string, _ *io.SectionReader) error {
				return &claimcheck.Error{Code: claimcheck.CodeRejected, Op: "put", Key: key}
			}
		}, true, claimcheck.ErrRejected, "rejected"},
		{"the store panics", func(*store) func(context.Context, string, *io.SectionReader) error {
			return func(context.Context, string, *io.SectionReader) error { panic("card 4242") }
		}, false, claimcheck.ErrUnavailable, "panic with a value of type string"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			s, b := &store{}, &broker{}
			cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s})
			pub := wrap(t, cc, b, nil)
			messages := []*message.Message{hook(text(10)), hook(text(70_000)), hook(text(80_000))}
			s.put = tt.put(s)
			err := pub.Publish("hooks", messages...)

			var all *hookmw.CheckInError
			if !errors.As(err, &all) || len(all.Messages) != 2 || all.Messages[0].Index != 1 || all.Messages[1].Index != 2 ||
				all.Messages[0].ID != messages[1].UUID || tt.is != nil && !errors.Is(err, tt.is) ||
				!strings.Contains(err.Error(), tt.text) || !strings.HasSuffix(err.Error(), "(and 1 more)") ||
				strings.Contains(err.Error(), "4242") {
				t.Errorf("error %v", err)
			}
			if envelope.IsPermanent(err) != tt.permanent || envelope.IsTransient(err) == tt.permanent {
				t.Errorf("permanent %v, transient %v: %v", envelope.IsPermanent(err), envelope.IsTransient(err), err)
			}
			if b.calls != 0 {
				t.Errorf("%d calls of the broker", b.calls)
			}
			s.put = nil
			if err := pub.Publish("hooks", messages...); err != nil || len(b.records) != 3 {
				t.Fatalf("the next attempt: %d records, error %v", len(b.records), err)
			}
			for i, msg := range messages {
				if body, err := handle(t, cc, b.receive(t, i)); err != nil || !bytes.Equal(body, msg.Payload) {
					t.Errorf("%d: handled %d bytes, error %v", i, len(body), err)
				}
			}
		})
	}
}

// One message that is at fault does not make an outage permanent for the others.
func TestCheckInErrorIsPermanentOnlyIfAllAre(t *testing.T) {
	rejected := &claimcheck.Error{Code: claimcheck.CodeRejected}
	tests := []struct {
		rule      string
		put       func(key string) error
		permanent bool
	}{
		{"all are", func(string) error { return rejected }, true},
		{"one is", func(key string) error {
			if strings.Contains(key, "globex") {
				return rejected
			}
			return errDown
		}, false},
		{"one is, and one is of no class", func(key string) error {
			if strings.Contains(key, "globex") {
				return rejected
			}
			return errors.New("disk full")
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			s, b := &store{}, &broker{}
			s.put = func(_ context.Context, key string, _ *io.SectionReader) error { return tt.put(key) }
			err := wrap(t, claimCheck(t, hookmw.ClaimCheckConfig{Store: s}), b, nil).
				Publish("hooks", hook(text(70_000)), hook(text(70_000), envelope.MetadataTenantID, "globex"))
			if envelope.IsPermanent(err) != tt.permanent || envelope.IsTransient(err) == tt.permanent || !errors.Is(err, claimcheck.ErrRejected) {
				t.Errorf("permanent %v, transient %v: %v", envelope.IsPermanent(err), envelope.IsTransient(err), err)
			}
		})
	}
}

// One pack of two is stored: the call fails all the same, for the messages of the other.
func TestCheckInThatFailsInPart(t *testing.T) {
	s, b := &store{}, &broker{}
	s.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
		if strings.Contains(key, "globex") {
			return errDown
		}
		return s.Store.Put(ctx, key, obj)
	}
	err := wrap(t, claimCheck(t, hookmw.ClaimCheckConfig{Store: s}), b, nil).
		Publish("hooks", hook(text(70_000)), hook(text(70_000), envelope.MetadataTenantID, "globex"), hook(text(10)))
	var all *hookmw.CheckInError
	if !errors.As(err, &all) || len(all.Messages) != 1 || all.Messages[0].Index != 1 || b.calls != 0 {
		t.Errorf("%d calls of the broker, error %v", b.calls, err)
	}
}

// The broker's refusal is the caller's to see, as it is. What was stored stays until retention
// removes it, and the next attempt does not depend on it.
func TestFaultAfterCheckIn(t *testing.T) {
	s, b := &store{}, &broker{err: errors.New("not the leader")}
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s})
	pub := wrap(t, cc, b, nil)
	msg := hook(text(70_000))
	if err := pub.Publish("hooks", msg); err != b.err {
		t.Errorf("error %v", err)
	}
	b.err = nil
	if err := pub.Publish("hooks", msg); err != nil {
		t.Fatal(err)
	}
	if len(s.puts) != 2 || len(b.records) != 1 {
		t.Errorf("%d puts, %d records", len(s.puts), len(b.records))
	}
	for _, key := range s.puts {
		r, err := s.Store.Get(t.Context(), key, 0, 1)
		if err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		_ = r.Close()
	}
	if body, err := handle(t, cc, b.receive(t, 0)); err != nil || !bytes.Equal(body, msg.Payload) {
		t.Errorf("handled %d bytes, error %v", len(body), err)
	}
}

const signedRef = "urn:ankusa:claim:v2:acme:01M39VMD8RA3C5HR4RBV67Y002:1737500000:s3cr3t-s3cr3t-s3cr3t-s3cr3t-s3cr3t-s3cr3t-s"

// A claim that cannot be redeemed for good: the handler is not called, the message stays as it
// was, and what is to be seen without the store needs no call of it.
func TestFaultsOfClaims(t *testing.T) {
	replace := func(change func(object []byte) []byte) func(*testing.T, *store, *message.Message) {
		return func(t *testing.T, s *store, _ *message.Message) {
			r, err := s.Store.Get(t.Context(), s.puts[0], 0, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			object, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Delete(t.Context(), s.puts[0]); err != nil {
				t.Fatal(err)
			}
			if object = change(object); object == nil {
				return
			}
			if err := s.Store.Put(t.Context(), s.puts[0], io.NewSectionReader(bytes.NewReader(object), 0, int64(len(object)))); err != nil {
				t.Fatal(err)
			}
		}
	}
	set := func(name, value string) func(*testing.T, *store, *message.Message) {
		return func(_ *testing.T, _ *store, msg *message.Message) { msg.Metadata[name] = value }
	}
	tests := []struct {
		rule    string
		damage  func(*testing.T, *store, *message.Message)
		is      error
		text    string
		unasked bool // no call of the store
	}{
		{"the object is gone", replace(func([]byte) []byte { return nil }), claimcheck.ErrNotFound, "not_found", false},
		{"it is truncated", replace(func(o []byte) []byte { return o[:len(o)/2] }), claimcheck.ErrNotFound, "not_found", false},
		{"one bit is flipped", replace(func(o []byte) []byte {
			o[len(o)/2] ^= 1
			return o
		}), claimcheck.ErrIntegrity, "integrity", false},
		{"another digest", set(envelope.MetadataSHA256, strings.Repeat("0", 64)), claimcheck.ErrIntegrity, "integrity", false},
		{"another size", set(envelope.MetadataSize, "69999"), claimcheck.ErrIntegrity, "integrity", false},
		{"no digest", set(envelope.MetadataSHA256, ""), claimcheck.ErrInvalidRef, "invalid_ref", true},
		{"a digest that is none", set(envelope.MetadataSHA256, strings.Repeat("F", 64)), claimcheck.ErrInvalidRef, "invalid_ref", true},
		{"no size", set(envelope.MetadataSize, ""), envelope.ErrMalformed, `invalid_field "ankusa_size"`, true},
		{"a size that is none", set(envelope.MetadataSize, "-1"), envelope.ErrMalformed, `invalid_field "ankusa_size"`, true},
		{"a size over the limit", set(envelope.MetadataSize, "90001"), claimcheck.ErrTooLarge, "too_large", true},
		{
			"a reference to another tenant", set(envelope.MetadataClaim, "urn:ankusa:claim:v1:globex:01M39VMD8RA3C5HR4RBV67Y002"),
			envelope.ErrMalformed, "tenant_mismatch", true,
		},
		{"a tenant that is another one", set(envelope.MetadataTenantID, "globex"), envelope.ErrMalformed, "tenant_mismatch", true},
		{
			"a reference that leads elsewhere", set(envelope.MetadataClaim, "urn:ankusa:claim:v1:../globex:01M39VMD8RA3C5HR4RBV67Y002"),
			claimcheck.ErrInvalidRef, "invalid_ref", true,
		},
		{"a path", set(envelope.MetadataClaim, "../../etc/passwd"), claimcheck.ErrInvalidRef, "invalid_ref", true},
		{"another bucket", set(envelope.MetadataClaim, "s3://elsewhere/claims/tenant=acme"), claimcheck.ErrInvalidRef, "invalid_ref", true},
		{"a URL", set(envelope.MetadataClaim, "https://evil.example/v1/claims/acme/01M39VMD8RA3C5HR4RBV67Y002"), claimcheck.ErrInvalidRef, "invalid_ref", true},
		{"a reference with more behind it", set(envelope.MetadataClaim, claimRef+"\n"), claimcheck.ErrInvalidRef, "invalid_ref", true},
		{"a reference that was never made", set(envelope.MetadataClaim, claimRef), claimcheck.ErrNotFound, "not_found", false},
		{"a signed reference, and no gateway", set(envelope.MetadataClaim, signedRef), claimcheck.ErrSignedRef, "signed_ref", true},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			s, b := &store{}, &broker{}
			cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, MaxBodyBytes: 90_000})
			msg := checkedIn(t, cc, b)
			tt.damage(t, s, msg)
			before := msg.Copy()
			_, err := handle(t, cc, msg)
			var e *hookmw.MessageError
			if !errors.As(err, &e) || !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.text) {
				t.Fatalf("error %v", err)
			}
			if e.ID != msg.UUID || e.Index != -1 || e.Claim != envelope.MaskClaim(msg.Metadata[envelope.MetadataClaim]) {
				t.Errorf("the error is about %s, %s", e.ID, e.Claim)
			}
			if !envelope.IsPermanent(err) || envelope.IsTransient(err) {
				t.Errorf("not permanent: %v", err)
			}
			if strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "bytes of body") {
				t.Errorf("told too much: %v", err)
			}
			if tt.unasked != (s.gets == 0) {
				t.Errorf("the store was asked %d times", s.gets)
			}
			if !msg.Equals(before) {
				t.Errorf("the message became %v", msg.Metadata)
			}
			// A lazy claim check ends the same way, at the latest with the last byte.
			if lazily(t, claimCheck(t, hookmw.ClaimCheckConfig{Store: s, Lazy: true}), msg) == nil && tt.is != claimcheck.ErrTooLarge {
				t.Error("a lazy claim check finds nothing")
			}
		})
	}
}

// lazily returns the error of a handler that reads its body lazily.
func lazily(t *testing.T, cc *hookmw.ClaimCheck, msg *message.Message) error {
	t.Helper()
	_, err := cc.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		r, err := cc.OpenBody(msg)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		_, err = io.Copy(io.Discard, r)
		return nil, err
	})(msg)
	var e *hookmw.MessageError
	if err != nil && (!errors.As(err, &e) || e.ID != msg.UUID) {
		t.Errorf("error %v", err)
	}
	return err
}

// A store that does not do its work says nothing against the message: it stays as it was, and
// is redeemed once the store is back.
func TestOutagesWhileRedeeming(t *testing.T) {
	type getFunc = func(context.Context, string, int64, int64) (io.ReadCloser, error)
	reading := func(read func() error) getFunc {
		return func(context.Context, string, int64, int64) (io.ReadCloser, error) {
			return io.NopCloser(readerFunc(func(p []byte) (int, error) { return len(p[:min(len(p), 10)]), read() })), nil
		}
	}
	tests := []struct {
		rule string
		get  getFunc
		is   error
	}{
		{"down", func(context.Context, string, int64, int64) (io.ReadCloser, error) { return nil, errDown }, claimcheck.ErrUnavailable},
		{"refusing us", func(context.Context, string, int64, int64) (io.ReadCloser, error) {
			return nil, &claimcheck.Error{Code: claimcheck.CodeForbidden}
		}, claimcheck.ErrForbidden},
		{"an error that was not translated", func(context.Context, string, int64, int64) (io.ReadCloser, error) {
			return nil, errors.New("disk on fire")
		}, claimcheck.ErrUnavailable},
		{"a connection that breaks", reading(func() error { return errDown }), claimcheck.ErrUnavailable},
		{"a panic", func(context.Context, string, int64, int64) (io.ReadCloser, error) { panic("card 4242") }, claimcheck.ErrUnavailable},
		{"a panic while reading", reading(func() error { panic("card 4242") }), claimcheck.ErrUnavailable},
		{"a panic while closing", func(context.Context, string, int64, int64) (io.ReadCloser, error) {
			return closer{failing: readerFunc(func([]byte) (int, error) { return 0, errDown })}, nil
		}, claimcheck.ErrUnavailable},
		{"no reader and no error", func(context.Context, string, int64, int64) (io.ReadCloser, error) { return nil, nil }, claimcheck.ErrUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			s, b := &store{}, &broker{}
			cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s})
			msg := checkedIn(t, cc, b)
			before := msg.Copy()
			s.get = tt.get
			for range 2 {
				_, err := handle(t, cc, msg)
				var e *hookmw.MessageError
				if !errors.As(err, &e) || e.ID != msg.UUID || e.Claim != msg.Metadata[envelope.MetadataClaim] || !errors.Is(err, tt.is) ||
					!envelope.IsTransient(err) || envelope.IsPermanent(err) || strings.Contains(err.Error(), "4242") {
					t.Errorf("error %v", err)
				}
				if !msg.Equals(before) {
					t.Errorf("the message became %v", msg.Metadata)
				}
			}
			if err := lazily(t, claimCheck(t, hookmw.ClaimCheckConfig{Store: s, Lazy: true}), msg); !envelope.IsTransient(err) {
				t.Errorf("lazily: error %v", err)
			}
			s.get = nil
			if body, err := handle(t, cc, msg); err != nil || !bytes.Equal(body, text(70_000)) {
				t.Errorf("once it is back: %d bytes, error %v", len(body), err)
			}
		})
	}
}

// A closer panics when it is closed.
type closer struct{ failing io.Reader }

func (c closer) Read(p []byte) (int, error) { return c.failing.Read(p) }
func (closer) Close() error                 { panic("card 4242") }

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
