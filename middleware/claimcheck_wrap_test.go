package middleware_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

type namedBroker struct{ broker }

func (*namedBroker) String() string { return "the broker" }

func TestWrapPublisherErrors(t *testing.T) {
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: &store{}})
	onlyGateway := claimCheck(t, hookmw.ClaimCheckConfig{Gateway: gateway{}})
	tests := []struct {
		rule   string
		cc     *hookmw.ClaimCheck
		pub    message.Publisher
		sealer marshaler.Sealer
		named  []string
	}{
		{"a publisher and its marshaler", cc, &poisonTopic{}, kafkawire.Marshaler{}, nil},
		{"a publisher that seals", cc, &broker{}, nil, nil},
		{"no publisher", cc, nil, nil, []string{"nil publisher"}},
		{"no sealer", cc, &poisonTopic{}, nil, []string{"no sealer, and *middleware_test.poisonTopic is none"}},
		{"a sealer that is not valid", cc, &broker{}, kafkawire.Marshaler{Source: "\xff", MaxMessageBytes: -1}, []string{"Source", "MaxMessageBytes -1"}},
		{"everything", onlyGateway, nil, kafkawire.Marshaler{MaxMessageBytes: -1}, []string{"nil publisher", "MaxMessageBytes -1", "takes a Store"}},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			pub, err := tt.cc.WrapPublisher(tt.pub, tt.sealer)
			if (err == nil) != (tt.named == nil) || (pub == nil) != (err != nil) {
				t.Errorf("publisher %v, error %v", pub, err)
			}
			for _, what := range tt.named {
				if !strings.Contains(fmt.Sprint(err), what) {
					t.Errorf("%v does not name %s", err, what)
				}
			}
		})
	}
}

func TestWrappedPublisher(t *testing.T) {
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: &store{}})
	for want, inner := range map[string]message.Publisher{"the broker": &namedBroker{}, "middleware_test.broker": &broker{}} {
		if got := fmt.Sprint(wrap(t, cc, inner, kafkawire.Marshaler{})); got != want {
			t.Errorf("its name is %q, want %q", got, want)
		}
	}

	s := &store{}
	b := &broker{err: errors.New("still busy")}
	pub := wrap(t, claimCheck(t, hookmw.ClaimCheckConfig{Store: s}), b, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := pub.Close(); err != b.err {
				t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
	if b.closed != 1 {
		t.Errorf("closed %d times", b.closed)
	}
	if err := pub.Publish("hooks", hook(text(70_000))); !errors.Is(err, marshaler.ErrClosed) || b.calls != 0 || len(s.puts) != 0 {
		t.Errorf("after Close: error %v, %d calls, %d puts", err, b.calls, len(s.puts))
	}
}

// Many goroutines share one publisher, and no message is acked or nacked by publishing it.
func TestPublishAtOnce(t *testing.T) {
	s, b := &store{}, &broker{}
	pub := wrap(t, claimCheck(t, hookmw.ClaimCheckConfig{Store: s}), b, nil)
	shared := hook(text(70_000)) // needs no change: several goroutines may publish it
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := pub.Publish("hooks", shared, hook(text(10))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(b.records) != 32 || len(s.puts) != 16 {
		t.Errorf("%d records, %d puts", len(b.records), len(s.puts))
	}
	select {
	case <-shared.Acked():
		t.Error("acked")
	case <-shared.Nacked():
		t.Error("nacked")
	default:
	}
	if !shared.Ack() {
		t.Error("cannot be acked")
	}
	if err := pub.Publish("hooks"); err != nil || b.calls != 17 {
		t.Errorf("nothing to publish: %v, %d calls", err, b.calls)
	}
}
