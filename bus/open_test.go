package bus_test

import (
	"errors"
	"maps"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
)

// orderPlaced is what most tests publish.
type orderPlaced struct {
	OrderID  string `json:"order_id"`
	Quantity int    `json:"quantity"`
}

func (orderPlaced) MessageType() string { return "orders.placed" }

var (
	messageID     = uuid.MustParse("0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10")
	correlationID = uuid.MustParse("0199a1c2-0000-7000-8000-00000000002a")
	publishedAt   = time.UnixMilli(1737500000123).UTC()
)

func order() *bus.Envelope {
	return bus.Restore(messageID, "orders.placed", []byte(`{"order_id":"o-1","quantity":2}`), correlationID, "replies",
		map[string]string{"tenant": "acme"}, publishedAt)
}

// The keys are what other programs and messages under way have.
func TestOpenForm(t *testing.T) {
	msg := order().Message()
	if msg.UUID != "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10" || string(msg.Payload) != `{"order_id":"o-1","quantity":2}` {
		t.Errorf("%s %s", msg.UUID, msg.Payload)
	}
	want := message.Metadata{
		"hexeract_type": "orders.placed", "correlation_id": "0199a1c2-0000-7000-8000-00000000002a",
		"hexeract_reply_to": "replies", "hexeract_published_at": "1737500000123", "tenant": "acme",
	}
	if !maps.Equal(msg.Metadata, want) {
		t.Errorf("metadata %v, want %v", msg.Metadata, want)
	}
	if bus.MetadataCorrelationID != middleware.CorrelationIDMetadataKey {
		t.Error("Watermill has another key")
	}
	empty := bus.Restore(uuid.Nil, "", nil, uuid.Nil, "", nil, time.Time{}).Message()
	if len(empty.Metadata) != 1 || empty.Metadata["correlation_id"] != uuid.Nil.String() {
		t.Errorf("metadata %v of an empty envelope", empty.Metadata)
	}
}

func TestOpenFormComesBack(t *testing.T) {
	tests := map[string]func(*bus.Envelope){
		"a message":            func(*bus.Envelope) {},
		"without a reply":      func(e *bus.Envelope) { e.ReplyTo = "" },
		"without headers":      func(e *bus.Envelope) { e.Headers = nil },
		"nil ids":              func(e *bus.Envelope) { e.MessageID, e.CorrelationID = uuid.Nil, uuid.Nil },
		"before 1970":          func(e *bus.Envelope) { e.PublishedAt = time.UnixMilli(-1).UTC() },
		"the latest time":      func(e *bus.Envelope) { e.PublishedAt = time.UnixMilli(math.MaxInt64).UTC() },
		"any bytes":            func(e *bus.Envelope) { e.Payload = []byte("\xff\x00") },
		"names of our own":     func(e *bus.Envelope) { e.Headers = reserved() },
		"headers named alike":  func(e *bus.Envelope) { e.Headers = map[string]string{"a": "1", "A": "2", "": "3"} },
		"a header as it looks": func(e *bus.Envelope) { e.Headers = map[string]string{"hexeract_header_hexeract_type": "x"} },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			e := order()
			change(e)
			got, err := bus.FromMessage(e.Message())
			if err != nil || !reflect.DeepEqual(got, e) {
				t.Errorf("%#v, error %v, want\n%#v\n%v, want %v", got, err, e, got.Headers, e.Headers)
			}
		})
	}
}

// A time that milliseconds of 64 bits do not have is the nearest one that they have.
func TestTimesBeyondMilliseconds(t *testing.T) {
	for at, want := range map[time.Time]string{
		time.Unix(1<<62, 0):                   "9223372036854775807",
		time.Unix(-1<<62, 0):                  "-9223372036854775808",
		time.Unix(9223372036854776, 0):        "9223372036854775807",
		time.Unix(9223372036854774, 5e6):      "9223372036854774005",
		time.Unix(-9223372036854774, 999e6+9): "-9223372036854773001",
	} {
		if got := (&bus.Envelope{PublishedAt: at}).Message().Metadata["hexeract_published_at"]; got != want {
			t.Errorf("%d: %s, want %s", at.Unix(), got, want)
		}
	}
}

// reserved are headers under every key that an open message has a use for.
func reserved() map[string]string {
	headers := make(map[string]string)
	for _, name := range []string{
		"hexeract_type", "hexeract_reply_to", "hexeract_published_at", "correlation_id", "hexeract_malformed",
		"hexeract_header_x", "envelope_redeemed", "ankusa_claim", "Ankusa_Id", "_watermill_message_uuid",
		"_watermill_amqp_redelivered", "_watermill_message_google_message_id", "publishTime",
	} {
		headers[name] = "of a header"
	}
	return headers
}

// A header cannot say of a message what it is, nor that a claim was redeemed.
func TestHeadersDoNotPassForProperties(t *testing.T) {
	e := order()
	e.Headers = reserved()
	msg := e.Message()
	if len(msg.Metadata) != 4+len(e.Headers) || msg.Metadata["envelope_redeemed"] != "" || msg.Metadata["hexeract_type"] != "orders.placed" {
		t.Errorf("metadata %v", msg.Metadata)
	}
}

// Any Watermill message with a type is a typed message.
func TestFromMessageOfOthers(t *testing.T) {
	derived := uuid.NewSHA1(uuid.NameSpaceOID, []byte("req-7"))
	tests := map[string]struct {
		uuid              string
		metadata          message.Metadata
		message, causedBy uuid.UUID
	}{
		"no correlation id": {messageID.String(), nil, messageID, messageID},
		"what Watermill's transports write": {
			messageID.String(),
			message.Metadata{"_watermill_message_uuid": "u", "_watermill_amqp_redelivered": "true", "publishTime": "now"},
			messageID,
			messageID,
		},
		"ids that are no UUIDs": {
			"order 1", message.Metadata{"correlation_id": "req-7"}, uuid.NewSHA1(uuid.NameSpaceOID, []byte("order 1")), derived,
		},
		"upper case": {"0199A1C2-7B3E-7D4A-9C1F-2E5B8A6D4F10", nil, messageID, messageID},
		"no hyphens": {"0199a1c27b3e7d4a9c1f2e5b8a6d4f10", nil, messageID, messageID},
		"braces":     {"{0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10}", nil, messageID, messageID},
		"a URN":      {"URN:uuid:0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10", nil, messageID, messageID},
		"no braces": {
			"(0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10)", nil,
			uuid.NewSHA1(uuid.NameSpaceOID, []byte("(0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10)")),
			uuid.NewSHA1(uuid.NameSpaceOID, []byte("(0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10)")),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			msg := message.NewMessage(tt.uuid, []byte("{}"))
			maps.Copy(msg.Metadata, tt.metadata)
			msg.Metadata["hexeract_type"] = "orders.placed"
			before := time.Now().Truncate(time.Millisecond)
			e, err := bus.FromMessage(msg)
			if err != nil || e.MessageID != tt.message || e.CorrelationID != tt.causedBy || e.Headers != nil {
				t.Errorf("%v, headers %v, error %v", e, e.Headers, err)
			}
			if e.PublishedAt.Before(before) || e.PublishedAt.After(time.Now()) {
				t.Errorf("published at %v", e.PublishedAt)
			}
		})
	}
}

func TestFromMessageMintsAnIDOnce(t *testing.T) {
	msg := message.NewMessage("", []byte("{}"))
	msg.Metadata["hexeract_type"] = "t"
	first, err := bus.FromMessage(msg)
	if err != nil || first.MessageID.Version() != 7 || first.CorrelationID != first.MessageID || msg.UUID != first.MessageID.String() {
		t.Errorf("%v, error %v, message %q", first, err, msg.UUID)
	}
	if again, err := bus.FromMessage(msg); err != nil || again.MessageID != first.MessageID {
		t.Errorf("%v, error %v", again, err)
	}
}

func TestFromMessageWithoutType(t *testing.T) {
	for why, want := range map[string]string{
		"":                      "bus: invalid_topology: message type: is missing",
		"missing_type":          "bus: invalid_topology: message type: is missing",
		`invalid_type:"a\xff"`:  "bus: invalid_topology: message type: is not UTF-8",
		"something of somebody": "bus: invalid_topology: message type: is missing",
	} {
		msg := message.NewMessage("m", nil)
		if why != "" {
			msg.Metadata["hexeract_malformed"] = why
		}
		e, err := bus.FromMessage(msg)
		if e != nil || !errors.Is(err, bus.ErrInvalidTopology) || !envelope.IsPermanent(err) || err.Error() != want {
			t.Errorf("%q: %v, error %v, want %s", why, e, err, want)
		}
	}
}
