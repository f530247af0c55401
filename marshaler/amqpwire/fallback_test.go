package amqpwire_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	amqp2 "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	amqp3 "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
)

// counter is an Observer.
type counter struct {
	malformed map[string]int
	fallback  map[string]int
}

func newCounter() *counter {
	return &counter{malformed: map[string]int{}, fallback: map[string]int{}}
}

func (c *counter) Malformed(topic string, code envelope.Code) { c.malformed[topic+" "+string(code)]++ }
func (c *counter) Fallback(topic string)                      { c.fallback[topic]++ }

// fallback is a Fallback made of a function.
type fallback func(amqp.Delivery) (*message.Message, error)

func (f fallback) Unmarshal(d amqp.Delivery) (*message.Message, error) { return f(d) }

// A queue in the middle of a migration: every body arrives as it was sent, and what we broke
// is never taken for a message of the old format.
func TestFallbackOnALiveQueue(t *testing.T) {
	const each = 1000
	stock := amqp3.DefaultMarshaler{}
	count := newCounter()
	m := amqpwire.Marshaler{Source: "orders", Fallback: stock, Observer: count}

	type sent struct {
		delivery   amqp.Delivery
		uuid, body string
		old        bool
	}
	var queue []sent
	for i := range each {
		body := fmt.Sprintf(`{"order":%d}`, i)
		old, err := stock.Marshal(hooktest.With(message.NewMessage(fmt.Sprintf("old-%d", i), []byte(body)), "n", "old"))
		if err != nil {
			t.Fatal(err)
		}
		queue = append(queue, sent{delivered(old), fmt.Sprintf("old-%d", i), body, true})
		ours := marshal(t, m, hooktest.With(message.NewMessage(fmt.Sprintf("new-%d", i), []byte(body)), "n", "new"))
		queue = append(queue, sent{delivered(ours), fmt.Sprintf("new-%d", i), body, false})
	}
	rand.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })

	var broken amqp.Delivery
	for _, s := range queue {
		msg := unmarshal(t, m, s.delivery)
		if string(msg.Payload) != s.body || msg.UUID != s.uuid || msg.Metadata["n"] != s.uuid[:3] {
			t.Fatalf("%s: got %s %q %v", s.uuid, msg.UUID, msg.Payload, msg.Metadata)
		}
		if got := msg.Metadata["envelope_fallback"] == "true"; got != s.old {
			t.Errorf("%s: fallback %v", s.uuid, got)
		}
		if got := msg.Metadata["ankusa_id"] != ""; got == s.old {
			t.Errorf("%s: carries an envelope: %v", s.uuid, got)
		}
		if !s.old {
			broken = s.delivery
		}
	}
	if len(count.malformed) != 0 || !maps.Equal(count.fallback, map[string]int{"hooks": each}) {
		t.Errorf("counted %v", count)
	}

	broken.Body = broken.Body[:len(broken.Body)-1]
	if msg := unmarshal(t, m, broken); !envelope.IsMalformed(msg) {
		t.Errorf("a broken message of ours was read as %q", msg.Payload)
	}
	if count.malformed["hooks invalid_json"] != 1 {
		t.Errorf("counted %v", count)
	}
}

func TestFallback(t *testing.T) {
	fromQueue := delivery("hello", nil)
	fromQueue.Exchange, fromQueue.RoutingKey = "", "orders"
	tests := []struct {
		rule      string
		fallback  amqpwire.Unmarshaler
		delivery  amqp.Delivery
		malformed bool
		topic     string
	}{
		{"another format is read", amqp2.DefaultMarshaler{}, delivery("hello", nil), false, "hooks"},
		{"the topic is the queue where there is no exchange", amqp3.DefaultMarshaler{}, fromQueue, false, "orders"},
		{
			"a broken message of ours stays malformed",
			amqp2.DefaultMarshaler{},
			delivery("hello", amqp.Table{"ankusa_message_version": "1"}), true, "hooks",
		},
		{
			"in any letter case and type",
			amqp2.DefaultMarshaler{},
			delivery("hello", amqp.Table{"ANKUSA_MESSAGE_VERSION": int32(1)}), true, "hooks",
		},
		{
			"the stock marshaler's error for a header that is no string",
			amqp3.DefaultMarshaler{},
			delivery("hello", amqp.Table{"n": int32(1)}), true, "hooks",
		},
		{"an error means malformed", fallback(func(amqp.Delivery) (*message.Message, error) {
			return message.NewMessage("1", nil), errors.New("unreadable")
		}), delivery("hello", nil), true, "hooks"},
		{"a panic means malformed", fallback(func(amqp.Delivery) (*message.Message, error) {
			panic("index out of range")
		}), delivery("hello", nil), true, "hooks"},
		{"no message means malformed", fallback(func(amqp.Delivery) (*message.Message, error) {
			return nil, nil
		}), delivery("hello", nil), true, "hooks"},
		{"so does a marshaler of ours that cannot read it", amqpwire.Marshaler{}, delivery("hello", nil), true, "hooks"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			count := newCounter()
			msg := unmarshal(t, amqpwire.Marshaler{Fallback: tt.fallback, Observer: count}, tt.delivery)
			if envelope.IsMalformed(msg) != tt.malformed {
				t.Fatalf("malformed %v: %v", !tt.malformed, msg.Metadata)
			}
			if tt.malformed {
				if string(envelope.Raw(msg)) != "hello" || msg.Metadata["envelope_fallback"] != "" {
					t.Errorf("raw %q, metadata %v", envelope.Raw(msg), msg.Metadata)
				}
				if count.malformed[tt.topic+" invalid_json"] != 1 || len(count.fallback) != 0 {
					t.Errorf("counted %v", count)
				}
				return
			}
			if string(msg.Payload) != "hello" || msg.Metadata["envelope_fallback"] != "true" {
				t.Errorf("payload %q, metadata %v", msg.Payload, msg.Metadata)
			}
			if count.fallback[tt.topic] != 1 || len(count.malformed) != 0 {
				t.Errorf("counted %v", count)
			}
		})
	}
}

// What the fallback reads carries no envelope, whatever its headers say, and can be sealed.
func TestFallbackIsNotBelieved(t *testing.T) {
	m := amqpwire.Marshaler{Source: "orders", Tenant: "acme", Fallback: amqp3.DefaultMarshaler{}}
	msg := unmarshal(t, m, delivery("hello", amqp.Table{
		"_watermill_message_uuid": "\xff", "ankusa_id": "x", "Ankusa_Tenant_Id": "evil", "ankusa_tenant_id": "evil",
		"ANKUSA_CLAIM": claimRef, "envelope_redeemed": "true", "Envelope_Malformed": "x", "a": "\xff", "\xff": "b",
		"traceparent": traceparent, "x-first-death-queue": "q", "kept": "1",
	}))
	want := message.Metadata{
		"envelope_fallback": "true", "envelope_receipt": "hooks/ankusa.stripe/0", "traceparent": traceparent,
		"x-first-death-queue": "q", "kept": "1",
	}
	if !maps.Equal(msg.Metadata, want) {
		t.Errorf("metadata %v, want %v", msg.Metadata, want)
	}
	if p := marshal(t, m, msg); p.Headers["ankusa_tenant_id"] != "acme" || p.Headers["ankusa_id"] != msg.UUID {
		t.Errorf("sealed with %v", p.Headers)
	}
}
