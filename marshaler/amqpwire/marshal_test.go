package amqpwire_test

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
)

const (
	hookID      = hooktest.ID
	traceparent = hooktest.Traceparent
	claimRef    = "urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y002"
)

// The hook of the wire format's documentation, and its two forms.
const hookJSON = `{"v":1,"id":"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10","source_id":"stripe","tenant_id":"acme",` +
	`"received_at":1737500000123,"content_type":"application/json","size":5,"dedupe_key":"evt_1","replay_id":null,` +
	`"idempotency_key":"acme:stripe:evt_1","verification":{"status":"ok","flagged":false},` +
	`"headers":{"x-github-event":"push"},` +
	`"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":null,` +
	`"instance":"default","region":"eu-west-1",` +
	`"sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824","body_base64":"aGVsbG8="}`

// hook is that of the documentation with milliseconds, which AMQP's own timestamp has not.
func hook() *message.Message {
	return hooktest.With(hooktest.Message(), "ankusa_received_at", "1737500000123")
}

func marshal(t *testing.T, m amqpwire.Marshaler, msg *message.Message) amqp.Publishing {
	t.Helper()
	p, err := m.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMarshalPublishing(t *testing.T) {
	p := marshal(t, amqpwire.Marshaler{Source: "default"}, hooktest.With(hook(),
		"correlation_id", "c-1", "Mixed-Case", "", "naïve", "é\n\x00", "ankusa_replay_id", "r-1", "tracestate", "a=b"))
	want := amqp.Publishing{
		ContentType:  "application/json",
		DeliveryMode: 2,
		MessageId:    hookID, // without the replay
		Timestamp:    time.Unix(1737500000, 0),
		Headers: amqp.Table{
			"ankusa_id":              hookID,
			"ankusa_source_id":       "stripe",
			"ankusa_tenant_id":       "acme",
			"ankusa_message_version": "1",
			"ankusa_idempotency_key": "acme:stripe:evt_1",
			"content_type":           "application/json",
			"ankusa_dedupe_key":      "evt_1",
			"ankusa_replay_id":       "r-1",
			"traceparent":            traceparent,
			"tracestate":             "a=b",
			"correlation_id":         "c-1",
			"Mixed-Case":             "",
			"naïve":                  "é\n\x00",
		},
		Body: []byte(strings.NewReplacer(`"replay_id":null`, `"replay_id":"r-1"`, `"tracestate":null`, `"tracestate":"a=b"`).
			Replace(hookJSON)),
	}
	if got, want := fmt.Sprintf("%q", p), fmt.Sprintf("%q", want); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// Which metadata are headers, and which travel in the JSON.
func TestMarshalHeaders(t *testing.T) {
	long := strings.Repeat("n", 256)
	tests := []struct {
		rule   string
		m      amqpwire.Marshaler
		md     message.Metadata
		want   amqp.Table // beside the three that are always there
		member string
	}{
		{"without a tenant its attribute is empty, not absent", amqpwire.Marshaler{}, nil, amqp.Table{"ankusa_tenant_id": ""}, ""},
		{"defaults", amqpwire.Marshaler{Tenant: "acme"}, nil, amqp.Table{"ankusa_tenant_id": "acme"}, ""},
		{
			"Ordered writes the lane key",
			amqpwire.Marshaler{Ordered: true},
			nil,
			amqp.Table{"ankusa_tenant_id": "", "ankusa_ordering_key": "/orders"},
			"",
		},
		{
			"a name of 255 bytes is a header, one of 256 is not",
			amqpwire.Marshaler{},
			message.Metadata{long: "a", long[:255]: "b"},
			amqp.Table{"ankusa_tenant_id": "", long[:255]: "b"},
			`{"` + long + `":"a"}`,
		},
		{
			"RabbitMQ routes by CC and BCC, in capitals only",
			amqpwire.Marshaler{},
			message.Metadata{"CC": "a", "BCC": "b", "cc": "c"},
			amqp.Table{"ankusa_tenant_id": "", "cc": "c"},
			`{"BCC":"b","CC":"a"}`,
		},
		{
			"what RabbitMQ writes is not written for it",
			amqpwire.Marshaler{},
			message.Metadata{"x-death": "[]", "x-delivery-count": "1", "x-first-death-queue": "q", "x-last-death-queue": "q", "x-delay": "5"},
			amqp.Table{"ankusa_tenant_id": "", "x-delay": "5"},
			`{"x-death":"[]","x-delivery-count":"1","x-first-death-queue":"q","x-last-death-queue":"q"}`,
		},
		{
			"names that are taken, or none",
			amqpwire.Marshaler{},
			message.Metadata{"content_type": "text/plain", "": "x", "traceparent": "none"},
			amqp.Table{"ankusa_tenant_id": ""},
			`{"":"x","content_type":"text/plain","traceparent":"none"}`,
		},
		{
			"reserved and framing names are nowhere",
			amqpwire.Marshaler{},
			message.Metadata{
				"ankusa_foo": "1", "Envelope_Redeemed": "2", "TRACESTATE": "3", "_watermill_message_uuid": "4",
				"_watermill_amqp_redelivered": "true", "publishTime": "5",
			},
			amqp.Table{"ankusa_tenant_id": ""},
			"",
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			msg := message.NewMessage("m-1", message.Payload("x"))
			maps.Copy(msg.Metadata, tt.md)
			tt.m.Source = "orders"
			p := marshal(t, tt.m, msg)
			want := amqp.Table{
				"ankusa_id": "m-1", "ankusa_source_id": "orders", "ankusa_message_version": "1",
				"ankusa_idempotency_key": "m-1", "content_type": "application/json",
			}
			maps.Copy(want, tt.want)
			if got, want := fmt.Sprint(p.Headers), fmt.Sprint(want); got != want {
				t.Errorf("headers\n%s, want\n%s", got, want)
			}
			_, member, found := strings.Cut(string(p.Body), `"watermill_metadata":`)
			if found != (tt.member != "") || !strings.HasPrefix(member, tt.member) {
				t.Errorf("member %s, want %s", member, tt.member)
			}

			opened := unmarshal(t, tt.m, delivered(p))
			for name, want := range tt.md {
				if !envelope.IsReserved(name) || name == "traceparent" {
					if got, ok := opened.Metadata[name]; !ok || got != want {
						t.Errorf("%s came back as %q, want %q", name, got, want)
					}
				}
			}
		})
	}
}

func TestProperties(t *testing.T) {
	year := time.Now().AddDate(1, 0, 0)
	tests := []struct {
		rule, id, received string
		timestamp          time.Time
		messageID          string
	}{
		{"seconds, rounded down", "m", "1737500000999", time.Unix(1737500000, 0), "m"},
		{"a hook from a day before 1970", "m", "-86400000", time.Unix(0, 0), "m"},
		{"a hook a year ahead", "m", strconv.FormatInt(year.UnixMilli(), 10), time.Unix(year.Unix(), 0), "m"},
		{"an id of 255 bytes", strings.Repeat("i", 255), "0", time.Unix(0, 0), strings.Repeat("i", 255)},
		{"the property has no room for one of 256", strings.Repeat("i", 256), "0", time.Unix(0, 0), ""},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			msg := hooktest.With(hook(), "ankusa_id", tt.id, "ankusa_received_at", tt.received)
			msg.UUID = tt.id
			p := marshal(t, amqpwire.Marshaler{}, msg)
			if !p.Timestamp.Equal(tt.timestamp) || p.MessageId != tt.messageID {
				t.Errorf("timestamp %v message_id %q, want %v %q", p.Timestamp, p.MessageId, tt.timestamp, tt.messageID)
			}
			if p.Type != "" || p.Priority != 0 || p.Expiration != "" || p.CorrelationId != "" || p.AppId != "" {
				t.Errorf("other properties: %+v", p)
			}
			if got := unmarshal(t, amqpwire.Marshaler{}, delivered(p)); got.UUID != tt.id ||
				got.Metadata["ankusa_received_at"] != tt.received {
				t.Errorf("came back as %q received at %s", got.UUID, got.Metadata["ankusa_received_at"])
			}
		})
	}
}

func TestMarshalErrors(t *testing.T) {
	tests := []struct {
		rule  string
		msg   *message.Message
		field string
	}{
		{"no source and no default", message.NewMessage("m-1", nil), "ankusa_source_id"},
		{"a received_at that is no integer", hooktest.With(hook(), "ankusa_received_at", "1.0"), "ankusa_received_at"},
		{"unknown members that are known", hooktest.With(hook(), "ankusa_unknown", `{"v":2}`), "ankusa_unknown"},
		{"metadata that is not UTF-8", hooktest.With(hook(), "a", "\xff"), "a"},
		{"a name that is not UTF-8", hooktest.With(hook(), "\xff", "a"), "\xff"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			p, err := amqpwire.Marshaler{}.Marshal(tt.msg)
			var e *envelope.Error
			if !errors.As(err, &e) || e.Code != envelope.CodeInvalidField || e.Field != tt.field {
				t.Fatalf("error %v, want invalid_field %q", err, tt.field)
			}
			if !envelope.IsPermanent(err) || p.Body != nil {
				t.Errorf("body %q, permanent %v", p.Body, envelope.IsPermanent(err))
			}
			if _, err := (amqpwire.Marshaler{}).Prepare("", tt.msg); !errors.As(err, &e) || e.Field != tt.field {
				t.Errorf("Prepare finds it only on sealing: %v", err)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for _, m := range []amqpwire.Marshaler{{}, {FrameMax: 4096}, {Source: "é", MaxMessageBytes: 1}} {
		if err := m.Validate(); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
	err := amqpwire.Marshaler{Tenant: "\xff", Instance: "\xff", MaxMessageBytes: -1, FrameMax: 4095}.Validate()
	for _, what := range []string{"Tenant", "Instance", "MaxMessageBytes -1", "FrameMax 4095"} {
		if !strings.Contains(fmt.Sprint(err), what) {
			t.Errorf("%v does not name %s", err, what)
		}
	}
}
