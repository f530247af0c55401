package middleware_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// A claim check around another does nothing more: a body is stored once and read once.
func TestClaimCheckTwice(t *testing.T) {
	s, b := &store{}, &broker{}
	eager := claimCheck(t, hookmw.ClaimCheckConfig{Store: s})
	lazy := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, Lazy: true})
	bridge := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, NoReuse: true, InlineMaxBytes: -1})
	if err := wrap(t, eager, wrap(t, bridge, b, b), b).Publish("hooks", hook(text(70_000))); err != nil || len(s.puts) != 1 {
		t.Fatalf("published with %d puts, error %v", len(s.puts), err)
	}
	for _, tt := range []struct {
		rule         string
		outer, inner *hookmw.ClaimCheck
		gets         int
		want         []byte
	}{
		{"redeemed by the outer", eager, eager, 2, text(70_000)},
		{"passed on by the outer", lazy, eager, 2, text(70_000)},
		{"left alone by the inner", eager, lazy, 2, text(70_000)},
		{"passed on by both", lazy, lazy, 0, nil},
	} {
		s.gets = 0
		msg := b.receive(t, 0)
		_, err := tt.outer.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			body, err := handle(t, tt.inner, msg)
			if !bytes.Equal(body, tt.want) {
				t.Errorf("%s: the handler was given %d bytes", tt.rule, len(body))
			}
			return nil, err
		})(msg)
		if err != nil || s.gets != tt.gets {
			t.Errorf("%s: %d gets, error %v", tt.rule, s.gets, err)
		}
	}
}

// A message whose lazy handler fails lies in the poison topic with the claim that it came with,
// read or not, and can be handled from there.
func TestLazyMessageIsPoisoned(t *testing.T) {
	s, b := &store{}, &broker{}
	lazy := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, Lazy: true})
	poison, err := wmmw.PoisonQueueWithFilter(wrap(t, lazy, b, nil), "poison", hookmw.ShouldPoison)
	if err != nil {
		t.Fatal(err)
	}
	claim := checkedIn(t, lazy, b).Metadata[envelope.MetadataClaim]
	for i, read := range []int{0, 10, 70_001} {
		handler := lazy.Middleware(hookmw.Malformed{PassClaims: true}.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			body, err := lazy.OpenBody(msg)
			if err != nil {
				return nil, err
			}
			defer body.Close()
			_, _ = body.Read(make([]byte, read))
			return nil, envelope.Permanent(errors.New("no such order"))
		}))
		if _, err := poison(handler)(b.receive(t, i)); err != nil {
			t.Fatal(err)
		}
		got := b.receive(t, i+1)
		if got.Metadata[envelope.MetadataClaim] != claim || got.Metadata[wmmw.ReasonForPoisonedKey] == "" || len(s.puts) != 1 {
			t.Errorf("%d bytes read: poisoned with %v, %d puts", read, got.Metadata, len(s.puts))
		}
		body, err := handle(t, claimCheck(t, hookmw.ClaimCheckConfig{Store: s}), got)
		if err != nil || !bytes.Equal(body, text(70_000)) {
			t.Errorf("%d bytes read: handled %d bytes, error %v", read, len(body), err)
		}
	}
}
