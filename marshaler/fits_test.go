package marshaler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
)

// Fits is certain where it says true: it never says so of a message that is over the limit,
// whatever its text grows to. Of an ordinary one it does say so.
func TestFits(t *testing.T) {
	escaped := strings.Repeat("\x00", 5000) // six bytes for one
	many := hook()
	for i := range 31 * 31 {
		many.Metadata[string([]byte{byte(1 + i/31), byte(1 + i%31)})] = ""
	}
	large := hook()
	large.Payload = make([]byte, 70_000)
	messages := map[string]*message.Message{
		"ordinary":      hook(),
		"a large body":  large,
		"no body":       {UUID: "m-1", Metadata: message.Metadata{"ankusa_source_id": "s"}},
		"text":          hooktest.With(hook(), "ankusa_source_id", escaped, "ankusa_tenant_id", escaped, "ankusa_ordering_key", escaped),
		"metadata":      hooktest.With(hook(), "note", escaped, escaped, "note"),
		"noncharacters": hooktest.With(hook(), "ankusa_headers", `{"a":"`+strings.Repeat("\uffff", 5000)+`"}`),
		"many entries":  many,
		"no trace":      hooktest.With(hook(), "traceparent", escaped, "tracestate", escaped),
		"a long id":     hooktest.With(&message.Message{UUID: escaped, Metadata: message.Metadata{}}, "ankusa_source_id", escaped),
		"a claim":       claimed(),
		"a malformed one": envelope.OpenMalformed([]byte(escaped), &envelope.Error{Code: envelope.CodeInvalidJSON}, "bad",
			map[string]string{"note": escaped}),
	}
	longKey := func(string, *message.Message) string { return strings.Repeat("k", 100_000) }
	sealers := map[string]func(limit int64) marshaler.Fitter{
		"Kafka": func(n int64) marshaler.Fitter { return kafkawire.Marshaler{MaxMessageBytes: n} },
		"Kafka with a key": func(n int64) marshaler.Fitter {
			return kafkawire.Marshaler{MaxMessageBytes: n, Key: longKey}
		},
		"RabbitMQ": func(n int64) marshaler.Fitter { return amqpwire.Marshaler{MaxMessageBytes: n} },
		"wrapped": func(n int64) marshaler.Fitter {
			return wrap(t, &sink{}, marshaler.Options{MaxMessageBytes: n})
		},
		"XML": func(n int64) marshaler.Fitter {
			return wireFitter{marshaler.Wire{MaxMessageBytes: n, EscapeNoncharacters: true, Native: anything, PerAttribute: 100, PerMessage: 1000}}
		},
	}
	for transport, sealer := range sealers {
		for name, msg := range messages {
			t.Run(fmt.Sprint(transport, "/", name), func(t *testing.T) {
				prepared, err := sealer(1<<20).Prepare("hooks", msg)
				if err != nil {
					t.Fatal(err)
				}
				inline, _, _ := sealer(1<<20).Size("hooks", prepared, "")
				if sealer(inline-1).Fits("hooks", prepared) {
					t.Errorf("%d bytes fit into less", inline)
				}
				if !sealer(1<<20).Fits("hooks", prepared) {
					t.Errorf("%d bytes do not fit", inline)
				}
			})
		}
	}
}

func claimed() *message.Message {
	msg := hooktest.With(hook(), "ankusa_claim", "urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y002")
	msg.Payload = nil
	return msg
}

type wireFitter struct{ marshaler.Wire }

func (w wireFitter) Prepare(_ string, msg *message.Message) (*message.Message, error) {
	return w.Wire.Prepare(msg)
}

func (w wireFitter) Size(_ string, prepared *message.Message, tenant string) (inline, claim, limit int64) {
	s := w.Wire.Size(prepared, tenant)
	return s.Inline, s.Claim, w.MaxMessageBytes
}

func (w wireFitter) Fits(_ string, prepared *message.Message) bool { return w.Wire.Fits(prepared) }
