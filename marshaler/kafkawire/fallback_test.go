package kafkawire_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
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
type fallback func(*sarama.ConsumerMessage) (*message.Message, error)

func (f fallback) Unmarshal(r *sarama.ConsumerMessage) (*message.Message, error) { return f(r) }

// A topic in the middle of a migration: every body arrives as it was sent, and what we broke
// is never taken for a message of the old format.
func TestFallbackOnALiveTopic(t *testing.T) {
	const each = 1000
	stock := kafka.DefaultMarshaler{}
	count := newCounter()
	m := kafkawire.Marshaler{Source: "orders", Fallback: stock, Observer: count}

	type sent struct {
		record     *sarama.ConsumerMessage
		uuid, body string
		old        bool
	}
	var topic []sent
	for i := range each {
		body := fmt.Sprintf(`{"order":%d}`, i)
		old, err := stock.Marshal("hooks", hooktest.With(message.NewMessage(fmt.Sprintf("old-%d", i), []byte(body)), "n", "old"))
		if err != nil {
			t.Fatal(err)
		}
		topic = append(topic, sent{consumed(t, old), fmt.Sprintf("old-%d", i), body, true})
		ours := marshal(t, m, hooktest.With(message.NewMessage(fmt.Sprintf("new-%d", i), []byte(body)), "n", "new"))
		topic = append(topic, sent{consumed(t, ours), fmt.Sprintf("new-%d", i), body, false})
	}
	rand.Shuffle(len(topic), func(i, j int) { topic[i], topic[j] = topic[j], topic[i] })

	for _, s := range topic {
		msg := unmarshal(t, m, s.record)
		if string(msg.Payload) != s.body || msg.UUID != s.uuid || msg.Metadata["n"] != s.uuid[:3] {
			t.Fatalf("%s: got %s %q %v", s.uuid, msg.UUID, msg.Payload, msg.Metadata)
		}
		if got := msg.Metadata["envelope_fallback"] == "true"; got != s.old {
			t.Errorf("%s: fallback %v", s.uuid, got)
		}
		if got := msg.Metadata["ankusa_id"] != ""; got == s.old {
			t.Errorf("%s: carries an envelope: %v", s.uuid, got)
		}
	}
	if len(count.malformed) != 0 || !maps.Equal(count.fallback, map[string]int{"hooks": each}) {
		t.Errorf("counted %v", count)
	}

	broken := topic[0].record
	for _, s := range topic {
		if !s.old {
			broken = s.record
		}
	}
	broken.Value = broken.Value[:len(broken.Value)-1]
	if msg := unmarshal(t, m, broken); !envelope.IsMalformed(msg) {
		t.Errorf("a broken message of ours was read as %q", msg.Payload)
	}
	if count.malformed["hooks invalid_json"] != 1 {
		t.Errorf("counted %v", count)
	}
}

func TestFallback(t *testing.T) {
	stock := kafka.DefaultMarshaler{}
	tests := []struct {
		rule      string
		fallback  kafkawire.Unmarshaler
		record    *sarama.ConsumerMessage
		malformed bool
	}{
		{"another format is read", stock, record("hello"), false},
		{"a tombstone is the old format's to judge", stock, &sarama.ConsumerMessage{Topic: "hooks"}, false},
		{"a broken message of ours stays malformed", stock, record("hello", "ankusa_message_version=1"), true},
		{"in any letter case", stock, record("hello", "Ankusa_Message_Version="), true},
		{"an error means malformed", fallback(func(*sarama.ConsumerMessage) (*message.Message, error) {
			return message.NewMessage("1", nil), errors.New("unreadable")
		}), record("hello"), true},
		{"a panic means malformed", fallback(func(*sarama.ConsumerMessage) (*message.Message, error) {
			panic("index out of range")
		}), record("hello"), true},
		{"no message means malformed", fallback(func(*sarama.ConsumerMessage) (*message.Message, error) {
			return nil, nil
		}), record("hello"), true},
		{"so does a marshaler of ours that cannot read it", kafkawire.Marshaler{}, record("hello"), true},
		{"metadata are made", fallback(func(r *sarama.ConsumerMessage) (*message.Message, error) {
			return &message.Message{Payload: r.Value}, nil
		}), record("hello"), false},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			count := newCounter()
			msg := unmarshal(t, kafkawire.Marshaler{Fallback: tt.fallback, Observer: count}, tt.record)
			if envelope.IsMalformed(msg) != tt.malformed {
				t.Fatalf("malformed %v: %v", !tt.malformed, msg.Metadata)
			}
			if tt.malformed {
				if string(envelope.Raw(msg)) != string(tt.record.Value) || msg.Metadata["envelope_fallback"] != "" {
					t.Errorf("raw %q, metadata %v", envelope.Raw(msg), msg.Metadata)
				}
				if count.malformed["hooks invalid_json"] != 1 || len(count.fallback) != 0 {
					t.Errorf("counted %v", count)
				}
				return
			}
			if string(msg.Payload) != string(tt.record.Value) || msg.Metadata["envelope_fallback"] != "true" {
				t.Errorf("payload %q, metadata %v", msg.Payload, msg.Metadata)
			}
			if count.fallback["hooks"] != 1 || len(count.malformed) != 0 {
				t.Errorf("counted %v", count)
			}
		})
	}
}

// A well-formed message never reaches the fallback, with or without our attributes.
func TestFallbackIsNotAsked(t *testing.T) {
	m := kafkawire.Marshaler{Fallback: fallback(func(*sarama.ConsumerMessage) (*message.Message, error) {
		t.Error("asked")
		return nil, nil
	})}
	if msg := unmarshal(t, m, record(hookJSON)); string(msg.Payload) != "hello" {
		t.Errorf("payload %q", msg.Payload)
	}
}

// What the fallback reads carries no envelope, whatever its headers say, and can be sealed.
func TestFallbackIsNotBelieved(t *testing.T) {
	m := kafkawire.Marshaler{Source: "orders", Tenant: "acme", Fallback: kafka.DefaultMarshaler{}}
	msg := unmarshal(t, m, record("hello", "_watermill_message_uuid=\xff", "ankusa_id=x", "Ankusa_Tenant_Id=evil",
		"ankusa_tenant_id=evil", "ankusa_verification=ok", "ANKUSA_CLAIM="+claimRef, "envelope_redeemed=true",
		"Envelope_Malformed=x", "a=\xff", "\xff=b", "traceparent="+traceparent, "kept=1"))
	want := message.Metadata{
		"envelope_fallback": "true", "envelope_receipt": "hooks/3/42", "traceparent": traceparent, "kept": "1",
	}
	if !maps.Equal(msg.Metadata, want) {
		t.Errorf("metadata %v, want %v", msg.Metadata, want)
	}
	out := marshal(t, m, msg)
	if lines := strings.Join(headerLines(out.Headers), "\n"); !strings.Contains(lines, "ankusa_tenant_id=acme\n") ||
		strings.Contains(lines, "envelope_") || strings.Contains(lines, "evil") {
		t.Errorf("sealed as\n%s", lines)
	}
}
