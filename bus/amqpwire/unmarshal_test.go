package amqpwire_test

import (
	"maps"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/bus/amqpwire"
	"github.com/watermill-envelope/envelope/internal/amqptest"
)

// fromRust is what a Rust service publishes, with these headers.
func fromRust(headers amqp.Table) amqp.Delivery {
	return amqp.Delivery{
		DeliveryTag: 1, RoutingKey: "orders", ContentType: "application/json", DeliveryMode: 2, Headers: headers,
		MessageId: messageID, CorrelationId: correlationID, Type: "orders.placed", Timestamp: time.Unix(1737500000, 0),
		Body: []byte(payload),
	}
}

func unmarshal(t testing.TB, d amqp.Delivery) *message.Message {
	t.Helper()
	msg, err := amqpwire.Marshaler{}.Unmarshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

var ofRust = message.Metadata{
	"hexeract_type": "orders.placed", "correlation_id": correlationID, "hexeract_published_at": "1737500000000",
}

// with are the metadata of a message of Rust and these.
func with(metadata message.Metadata) message.Metadata {
	all := maps.Clone(ofRust)
	maps.Copy(all, metadata)
	return all
}

func TestUnmarshal(t *testing.T) {
	tests := []struct {
		rule   string
		change func(*amqp.Delivery)
		want   message.Metadata
	}{
		{"every property", func(d *amqp.Delivery) { d.ReplyTo = "amq.gen-x" }, with(message.Metadata{"hexeract_reply_to": "amq.gen-x"})},
		{"text headers", func(d *amqp.Delivery) { d.Headers = amqp.Table{"a": "1", "A": "", "": "x"} }, with(message.Metadata{"a": "1", "A": "", "": "x"})},
		{
			"headers that are no text",
			func(d *amqp.Delivery) {
				d.Headers = amqp.Table{
					"integer": int32(1), "long": int64(1), "bool": true, "bytes": []byte("x"), "time": time.Unix(1, 0), "nil": nil,
					"float": 1.5, "table": amqp.Table{"a": "b"}, "array": []any{"a"}, amqpwire.HeaderAttempts: int32(3), "a": "1",
				}
			},
			with(message.Metadata{"a": "1"}),
		},
		{"headers that are not UTF-8", func(d *amqp.Delivery) { d.Headers = amqp.Table{"a": "\xff", "\xff": "b", "c": "d"} }, with(message.Metadata{"c": "d"})},
		{
			"headers that route", func(d *amqp.Delivery) { d.Headers = amqp.Table{"CC": "other", "BCC": []any{"other"}} }, ofRust,
		},
		{
			"what RabbitMQ writes after a retry",
			func(d *amqp.Delivery) {
				d.Headers = amqp.Table{
					"x-death":             []any{amqp.Table{"count": int64(1), "queue": "orders.retry", "reason": "expired"}},
					"x-first-death-queue": "orders.retry", "x-last-death-reason": "expired", "x-delivery-count": int64(1),
				}
			},
			with(message.Metadata{"x-first-death-queue": "orders.retry", "x-last-death-reason": "expired"}),
		},
		{
			"headers named like ours",
			func(d *amqp.Delivery) {
				d.Headers = amqp.Table{
					"hexeract_type": "x", "correlation_id": "x", "hexeract_reply_to": "x", "hexeract_published_at": "x",
					"hexeract_malformed": "x", "envelope_redeemed": "true", "hexeract_header_x": "x",
				}
			},
			with(message.Metadata{
				"hexeract_header_hexeract_type": "x", "hexeract_header_correlation_id": "x", "hexeract_header_hexeract_reply_to": "x",
				"hexeract_header_hexeract_published_at": "x", "hexeract_header_hexeract_malformed": "x",
				"hexeract_header_envelope_redeemed": "true", "hexeract_header_hexeract_header_x": "x",
			}),
		},
		{"1970", func(d *amqp.Delivery) { d.Timestamp = time.Unix(0, 0) }, with(message.Metadata{"hexeract_published_at": "0"})},
		{
			"the latest second that milliseconds have",
			func(d *amqp.Delivery) { d.Timestamp = time.Unix(9223372036854775, 0) },
			with(message.Metadata{"hexeract_published_at": "9223372036854775000"}),
		},
		{"a reply that is no text", func(d *amqp.Delivery) { d.ReplyTo = "\xff" }, ofRust},
		{"another content type", func(d *amqp.Delivery) { d.ContentType, d.ContentEncoding, d.AppId = "text/plain", "gzip", "x" }, ofRust},
		{
			"no type", func(d *amqp.Delivery) { d.Type = "" },
			message.Metadata{"hexeract_malformed": "missing_type", "correlation_id": correlationID, "hexeract_published_at": "1737500000000"},
		},
		{
			"a type that is not UTF-8", func(d *amqp.Delivery) { d.Type = "a\xff\"b" },
			message.Metadata{"hexeract_malformed": `invalid_type:"a\xff\"b"`, "correlation_id": correlationID, "hexeract_published_at": "1737500000000"},
		},
		{
			"no type, and why", func(d *amqp.Delivery) {
				d.Type, d.Headers = "", amqp.Table{"hexeract_malformed": `invalid_type:"a\xff"`}
			},
			message.Metadata{"hexeract_malformed": `invalid_type:"a\xff"`, "correlation_id": correlationID, "hexeract_published_at": "1737500000000"},
		},
		{
			"no type, and a reason that is none", func(d *amqp.Delivery) { d.Type, d.Headers = "", amqp.Table{"hexeract_malformed": "\xff"} },
			message.Metadata{"hexeract_malformed": "missing_type", "correlation_id": correlationID, "hexeract_published_at": "1737500000000"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			d := fromRust(nil)
			tt.change(&d)
			msg := unmarshal(t, d)
			if msg.UUID != messageID || string(msg.Payload) != payload || !maps.Equal(msg.Metadata, tt.want) {
				t.Errorf("%s %s\n%v, want\n%v", msg.UUID, msg.Payload, msg.Metadata, tt.want)
			}
		})
	}
}

// A foreign producer's ids: minted where they are missing, the same at each delivery where they
// are free text.
func TestUnmarshalIDs(t *testing.T) {
	for came, want := range map[string]string{
		strings.ToUpper(messageID): messageID, strings.ReplaceAll(messageID, "-", ""): messageID,
		"{" + messageID + "}": messageID, "URN:UUID:" + messageID: messageID,
		"order-1": bus.ID("order-1").String(), "\xff": bus.ID("\xff").String(),
	} {
		d := fromRust(nil)
		d.MessageId, d.CorrelationId = came, came
		if msg := unmarshal(t, d); msg.UUID != want || msg.Metadata["correlation_id"] != want {
			t.Errorf("%q: %s, chain %s, want %s", came, msg.UUID, msg.Metadata["correlation_id"], want)
		}
	}
	d := fromRust(nil)
	d.MessageId, d.CorrelationId = "", ""
	first, second := unmarshal(t, d), unmarshal(t, d)
	ids := map[string]bool{}
	for _, msg := range []*message.Message{first, second} {
		for _, id := range []string{msg.UUID, msg.Metadata["correlation_id"]} {
			if parsed, ok := bus.ParseID(id); !ok || parsed.Version() != 7 || parsed.String() != id {
				t.Errorf("minted %s", id)
			}
			ids[id] = true
		}
	}
	if len(ids) != 4 {
		t.Errorf("minted %v", ids)
	}
}

// On a timestamp of 2^63 a Rust worker ends.
func TestUnmarshalTimestamps(t *testing.T) {
	for name, at := range map[string]time.Time{
		"missing": {}, "2^63": time.Unix(math.MinInt64, 0), "2^64-1": time.Unix(-1, 0),
		"2^63-1": time.Unix(math.MaxInt64, 0), "over the milliseconds": time.Unix(9223372036854776, 0),
	} {
		t.Run(name, func(t *testing.T) {
			d := fromRust(nil)
			d.Timestamp = at
			before := time.Now().Truncate(time.Millisecond)
			e, err := bus.FromMessage(unmarshal(t, d))
			if err != nil || e.PublishedAt.Before(before) || e.PublishedAt.After(time.Now()) {
				t.Errorf("%v, error %v", e, err)
			}
		})
	}
}

// Bytes of a content header, through the client.
func TestUnmarshalBytes(t *testing.T) {
	const (
		class = "\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x12"
		json  = "\x10application/json"
		ids   = "\x02\x24" + correlationID
		id    = "\x24" + messageID
		at    = "\x00\x00\x00\x00\x67\x90\x25\x60"
	)
	tests := map[string]struct {
		header string
		want   message.Metadata
	}{
		"an empty table":    {"\xb4\xe0" + json + "\x00\x00\x00\x00" + ids + id + at + "\x0dorders.placed", ofRust},
		"no table":          {"\x94\xe0" + json + ids + id + at + "\x0dorders.placed", ofRust},
		"a table and reply": {"\xb6\xe0" + json + "\x00\x00\x00\x08\x01aS\x00\x00\x00\x01b" + ids + "\x01q" + id + at + "\x0dorders.placed", with(message.Metadata{"a": "b", "hexeract_reply_to": "q"})},
		"an integer beside": {"\xb4\xe0" + json + "\x00\x00\x00\x0f\x01nI\x00\x00\x00\x03\x01aS\x00\x00\x00\x01b" + ids + id + at + "\x0dorders.placed", with(message.Metadata{"a": "b"})},
		"no type": {
			"\x94\xc0" + json + ids + id + at,
			message.Metadata{"hexeract_malformed": "missing_type", "correlation_id": correlationID, "hexeract_published_at": "1737500000000"},
		},
		"an empty type": {
			"\x94\xe0" + json + ids + id + at + "\x00",
			message.Metadata{"hexeract_malformed": "missing_type", "correlation_id": correlationID, "hexeract_published_at": "1737500000000"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			msg := unmarshal(t, amqptest.NewRecorder(t).Deliver(t, class+tt.header, payload))
			if msg.UUID != messageID || string(msg.Payload) != payload || !maps.Equal(msg.Metadata, tt.want) {
				t.Errorf("%s %s\n%v, want\n%v", msg.UUID, msg.Payload, msg.Metadata, tt.want)
			}
		})
	}
	t.Run("a timestamp of 2^63", func(t *testing.T) {
		header := class + "\x94\xe0" + json + ids + id + "\x80\x00\x00\x00\x00\x00\x00\x00" + "\x0dorders.placed"
		e, err := bus.FromMessage(unmarshal(t, amqptest.NewRecorder(t).Deliver(t, header, payload)))
		if err != nil || time.Since(e.PublishedAt) > time.Hour || e.PublishedAt.After(time.Now()) {
			t.Errorf("%v, error %v", e, err)
		}
	})
}

// A message that goes through comes out as it was, up to the seconds of AMQP.
func TestRoundTrip(t *testing.T) {
	e := bus.Restore(bus.NewID(), "orders.placed", []byte(payload), bus.NewID(), "amq.gen-x", map[string]string{
		"tenant": "acme", "correlation_id": "of a header", "hexeract_header_a": "b", "envelope_a": "b", "": "",
	}, time.Unix(1737500000, 0).UTC())
	got, err := bus.FromMessage(unmarshal(t, delivered(marshal(t, e.Message()))))
	if err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("%#v %v, error %v, want\n%#v %v", got, got.Headers, err, e, e.Headers)
	}
}

// delivered is the publishing as a consumer gets it.
func delivered(p amqp.Publishing) amqp.Delivery {
	return amqp.Delivery{
		DeliveryTag: 1, Headers: p.Headers, ContentType: p.ContentType, DeliveryMode: p.DeliveryMode,
		CorrelationId: p.CorrelationId, ReplyTo: p.ReplyTo, MessageId: p.MessageId, Timestamp: p.Timestamp, Type: p.Type, Body: p.Body,
	}
}

// A message without a type is refused by whatever handles it, and goes to the poison queue, where
// a Rust worker finds what it would have put there.
func TestMalformedIsPassedOn(t *testing.T) {
	d := fromRust(amqp.Table{"tenant": "acme"})
	d.Type = "a\xff"
	msg := unmarshal(t, d)
	if _, err := bus.FromMessage(msg); !envelope.IsPermanent(err) {
		t.Errorf("error %v", err)
	}
	msg.Metadata["reason_poisoned"] = "no type"
	p := marshal(t, msg)
	want := amqp.Table{"tenant": "acme", "reason_poisoned": "no type", "hexeract_malformed": `invalid_type:"a\xff"`}
	if p.Type != "" || p.MessageId != messageID || string(p.Body) != payload || !reflect.DeepEqual(p.Headers, want) {
		t.Errorf("publishing %+v", p)
	}
	again := unmarshal(t, delivered(p))
	if again.Metadata["hexeract_malformed"] != `invalid_type:"a\xff"` || again.Metadata["hexeract_type"] != "" {
		t.Errorf("metadata %v", again.Metadata)
	}
	again.Metadata["hexeract_type"] = "orders.placed"
	if p := marshal(t, again); p.Type != "orders.placed" || p.Headers["hexeract_malformed"] != nil {
		t.Errorf("repaired: %+v", p)
	}
}

func TestUnmarshalOfAClosedChannel(t *testing.T) {
	if msg, err := (amqpwire.Marshaler{}).Unmarshal(amqp.Delivery{}); msg != nil || err == nil {
		t.Errorf("%v, error %v", msg, err)
	}
}
