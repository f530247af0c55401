package suite

import (
	"errors"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// LongDiagnostics fails messages with errors whose texts are longer than any transport takes
// beside a body, and checks that they are in the poison topic all the same: an ordinary one
// with the beginning of the reason, a malformed one with its bytes, and one that fills its
// message, but for the longer id of a copy that goes on, with its whole body.
func LongDiagnostics(t *testing.T, b Broker, peer Peer) {
	ctx := Context(t)
	topic, poisonTopic := topicName(t, "in"), topicName(t, "poison")
	poisoned := peer.Watch(ctx, t, poisonTopic)
	chain, err := hookmw.NewChain(hookmw.ChainConfig{})
	if err != nil {
		t.Fatal(err)
	}
	pub := b.Publisher(t)
	poison, err := chain.PoisonQueue(pub, b.Sealer, poisonTopic)
	if err != nil {
		t.Fatal(err)
	}
	reason := strings.Repeat("a stack trace, line by line\n", 200_000) // over 5 MB
	wrong := func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			out, err := h(msg)
			if err != nil { // of the gate as well
				err = errors.Join(err, errors.New(reason))
			}
			return out, err
		}
	}
	consumer(ctx, t, b, "diagnostics", topic, func(*message.Message) error {
		return errors.New("the handler's own failure")
	}, poison, wrong, chain.Middleware)

	full := message.NewMessage(envelope.NewID(), nil)
	full.Payload = fill(t, b.Sealer, topic, full)
	if err := pub.Publish(topic, message.NewMessage(envelope.NewID(), []byte("ordinary")), full); err != nil {
		t.Fatal(err)
	}
	broken := Broken("diagnostics")
	peer.Put(ctx, t, topic, Raw{Body: broken})

	var ordinary, malformed, whole bool
	for _, raw := range poisoned(3) {
		if string(raw.Body) == string(broken) {
			malformed = true
			continue
		}
		e, err := envelope.ParseWire(raw.Body)
		if err != nil {
			t.Fatalf("%.99q: %v", raw.Body, err)
		}
		text, beside := raw.Header(wmmw.ReasonForPoisonedKey)
		if !beside {
			text = e.Metadata[wmmw.ReasonForPoisonedKey]
		}
		switch {
		case string(e.Body) == "ordinary":
			ordinary = strings.HasPrefix(text, "the handler's own failure\na stack trace") && strings.HasSuffix(text, "...[truncated]")
			if !ordinary {
				t.Errorf("the reason is %d bytes: %.99q", len(text), text)
			}
		case string(e.Body) == string(full.Payload):
			whole = true
		default:
			t.Errorf("%.99q is in the poison topic", e.Body)
		}
	}
	if !ordinary || !malformed || !whole {
		t.Errorf("in the poison topic: the ordinary one %v, the malformed one %v, the full one %v", ordinary, malformed, whole)
	}
}

// fill returns the longest payload with which a message has the size that the transport takes.
func fill(t testing.TB, sealer marshaler.Sealer, topic string, msg *message.Message) []byte {
	t.Helper()
	size := func(n int64) (inline, limit int64) {
		msg := msg.Copy()
		msg.Payload = make([]byte, n)
		prepared, err := sealer.Prepare(topic, msg)
		if err != nil {
			t.Fatal(err)
		}
		inline, _, limit = sealer.Size(topic, prepared, "")
		return inline, limit
	}
	const longerID = 64
	_, limit := size(0)
	limit -= longerID
	low, high := int64(0), limit
	for low < high {
		mid := (low + high + 1) / 2
		if inline, _ := size(mid); inline <= limit {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return make([]byte, low)
}
