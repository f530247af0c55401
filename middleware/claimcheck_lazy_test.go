package middleware_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	httpgateway "github.com/watermill-envelope/envelope/claimcheck/gateway"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// OpenBody reads the body of any message, lazy or not, and leaves the message as it was.
func TestOpenBody(t *testing.T) {
	s, b := &store{}, &broker{}
	eager := claimCheck(t, hookmw.ClaimCheckConfig{Store: s})
	lazy := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, Lazy: true, MaxBodyBytes: 1000})
	claim := checkedIn(t, eager, b)
	redeemed := checkedIn(t, eager, b)
	if _, err := handle(t, eager, redeemed); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		rule string
		cc   *hookmw.ClaimCheck
		msg  *message.Message
		want []byte
	}{
		{"an inline body", lazy, hook(text(10)), text(10)},
		{"an empty one", lazy, hook(nil), nil},
		{"a message without an envelope", lazy, message.NewMessage("u", text(10)), text(10)},
		{"a claim, whatever MaxBodyBytes", lazy, claim, text(70_000)},
		{"a claim, once more", lazy, claim, text(70_000)},
		{"a claim, without Lazy", eager, claim, text(70_000)},
		{"a redeemed one", lazy, redeemed, text(70_000)},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			before := tt.msg.Copy()
			var got []byte
			_, err := lazy.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				if !msg.Equals(before) {
					t.Error("the handler was given another message")
				}
				r, err := tt.cc.OpenBody(msg)
				if err != nil {
					return nil, err
				}
				if got, err = io.ReadAll(r); err != nil {
					return nil, err
				}
				return nil, r.Close()
			})(tt.msg)
			if err != nil || !bytes.Equal(got, tt.want) {
				t.Errorf("read %d bytes, error %v", len(got), err)
			}
			if !tt.msg.Equals(before) {
				t.Errorf("the message became %v", tt.msg.Metadata)
			}
		})
	}
}

// A body that is another one is known at its end, by the error of the last Read.
func TestOpenBodyVerifies(t *testing.T) {
	s, b := &store{}, &broker{}
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, Lazy: true})
	msg := checkedIn(t, cc, b)
	msg.Metadata[envelope.MetadataSHA256] = strings.Repeat("0", 64)
	r, err := cc.OpenBody(msg)
	if err != nil {
		t.Fatal(err)
	}
	var e *hookmw.MessageError
	if _, err = io.Copy(io.Discard, r); !errors.As(err, &e) || e.ID != msg.UUID || e.Claim == "" ||
		!errors.Is(err, claimcheck.ErrIntegrity) || !envelope.IsPermanent(err) {
		t.Errorf("error %v", err)
	}
	if _, again := r.Read(make([]byte, 10)); again != err {
		t.Errorf("then %v", again)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Read(make([]byte, 10)); err == nil {
		t.Error("read after Close")
	}
}

func TestOpenBodyOfAMalformedMessage(t *testing.T) {
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: &store{}, Lazy: true})
	_, err := cc.OpenBody(envelope.OpenMalformed([]byte("{"), &envelope.Error{Code: envelope.CodeInvalidField, Field: "size"}, "bad", nil))
	var e *envelope.Error
	if !errors.As(err, &e) || e.Code != envelope.CodeInvalidField || e.Field != "size" || !envelope.IsPermanent(err) {
		t.Errorf("error %v", err)
	}
}

// A gateway redeems in place of the store, and is all that a consumer needs.
func TestGateway(t *testing.T) {
	g := gateway{}
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Gateway: g})
	for _, ref := range []string{claimRef, signedRef} {
		msg := hook(nil, envelope.MetadataClaim, ref, envelope.MetadataSize, "5", envelope.MetadataSHA256, strings.Repeat("a", 64))
		if body, err := handle(t, cc, msg); err != nil || string(body) != ref+" 5 "+strings.Repeat("a", 64) {
			t.Errorf("handled %s, error %v", body, err)
		}
	}
	s := &store{}
	cc = claimCheck(t, hookmw.ClaimCheckConfig{Gateway: g, Store: s})
	if body, err := handle(t, cc, checkedIn(t, cc, &broker{})); err != nil || !strings.HasPrefix(string(body), "urn:") || s.gets != 0 {
		t.Errorf("handled %.100s, error %v, %d gets", body, err, s.gets)
	}
	if _, err := claimCheck(t, hookmw.ClaimCheckConfig{Gateway: g}).WrapPublisher(&broker{}, nil); err == nil || !strings.Contains(err.Error(), "Store") {
		t.Errorf("a publisher without a store: %v", err)
	}
}

// Through the gateway of another process, with nothing but its address.
func TestGatewayOverHTTP(t *testing.T) {
	s, b := &store{}, &broker{}
	producer := claimCheck(t, hookmw.ClaimCheckConfig{Store: s})
	msg := checkedIn(t, producer, b)
	g, err := httpgateway.New(httpgateway.Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g)
	defer server.Close()
	client, err := claimcheck.NewClient(claimcheck.ClientConfig{BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	consumer := claimCheck(t, hookmw.ClaimCheckConfig{Gateway: client})
	if err := lazily(t, claimCheck(t, hookmw.ClaimCheckConfig{Gateway: client, Lazy: true}), msg); err != nil {
		t.Error(err)
	}
	if body, err := handle(t, consumer, msg); err != nil || !bytes.Equal(body, text(70_000)) {
		t.Errorf("handled %d bytes, error %v", len(body), err)
	}
	gone := hook(nil, envelope.MetadataClaim, claimRef, envelope.MetadataSize, "5", envelope.MetadataSHA256, strings.Repeat("a", 64))
	if _, err := handle(t, consumer, gone); !errors.Is(err, claimcheck.ErrNotFound) || !envelope.IsPermanent(err) {
		t.Errorf("error %v", err)
	}
	server.Close()
	if _, err := handle(t, consumer, b.receive(t, 0)); !errors.Is(err, claimcheck.ErrUnavailable) || !envelope.IsTransient(err) {
		t.Errorf("error %v", err)
	}
}

// A gateway answers with what it was asked for.
type gateway struct{}

func (gateway) Redeem(_ context.Context, ref, sha256 string, size int64) ([]byte, error) {
	return fmt.Appendf(nil, "%s %d %s", ref, size, sha256), nil
}

func (g gateway) Open(ctx context.Context, ref, sha256 string, size int64) (io.ReadCloser, error) {
	body, err := g.Redeem(ctx, ref, sha256, size)
	return io.NopCloser(bytes.NewReader(body)), err
}

// What is wrong with a claim as such is found before a lazy handler runs.
func TestLazyRefusesWhatIsNoClaim(t *testing.T) {
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: &store{}, Lazy: true})
	msg := hook(nil, envelope.MetadataClaim, "urn:ankusa:claim:v1:globex:01M39VMD8RA3C5HR4RBV67Y002", envelope.MetadataSize, "5",
		envelope.MetadataSHA256, strings.Repeat("a", 64))
	var e *envelope.Error
	if _, err := handle(t, cc, msg); !errors.As(err, &e) || e.Code != envelope.CodeTenantMismatch { // handle: and was not called
		t.Errorf("error %v", err)
	}
}
