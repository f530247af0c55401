package amqpwire_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/bus/amqpwire"
)

// fuzzTable makes a table of text, one name=value for each line. The first byte of a value
// chooses its type.
func fuzzTable(lines string) amqp.Table {
	t := amqp.Table{}
	for line := range strings.SplitSeq(lines, "\n") {
		name, value, ok := strings.Cut(line, "=")
		if !ok || len(name) > 255 || value == "" {
			continue
		}
		n, s := int64(len(value)), value[1:]
		kinds := []any{s, nil, n > 3, int8(n), n, float64(n), []byte(s), time.Unix(n, 0), []any{s}, amqp.Table{s: s}, amqp.Decimal{}}
		t[name] = kinds[int(value[0])%len(kinds)]
	}
	return t
}

// FuzzUnmarshal checks what holds for any delivery at all: it is opened, is either a message with
// ids, time and type or refused for good, says nothing of itself that its properties do not say,
// and can be passed on with its text headers.
func FuzzUnmarshal(f *testing.F) {
	const stringKind = "\x00"
	for _, id := range []string{messageID, "", "order 1", "\xff", "{" + messageID + "}"} {
		for _, messageType := range []string{"orders.placed", "", "a\xff", strings.Repeat("t", 255), strings.Repeat("t", 300)} {
			f.Add(id, id, messageType, "amq.gen-x", int64(1737500000), "a="+stringKind+"b\n="+stringKind+"\nn=\x04", []byte(payload))
		}
	}
	for _, lines := range []string{
		"", "hexeract_type=" + stringKind + "x\ncorrelation_id=" + stringKind + "x\nenvelope_redeemed=" + stringKind + "true\nAnkusa_Id=" + stringKind + "x",
		"hexeract_malformed=" + stringKind + "x", "hexeract_header_a=" + stringKind + "x", "a\xff=" + stringKind + "b\nc=" + stringKind + "\xff",
		"CC=" + stringKind + "x\nBCC=\x08x\nx-death=\x08\nx-first-death-queue=" + stringKind + "q\nreason_poisoned=" + stringKind + "r",
		"a=\x01\nb=\x02\nc=\x03\nd=\x04\ne=\x05\nf=\x06\ng=\x07\nh=\x08\ni=\x09\nj=\x0a",
	} {
		for _, seconds := range []int64{0, -1, math.MinInt64, math.MaxInt64, 9223372036854775, 9223372036854776, -62135596800} {
			f.Add(messageID, correlationID, "orders.placed", "", seconds, lines, []byte("\xff"))
			f.Add("", "", "", "\xff", seconds, lines, []byte(nil))
		}
	}
	f.Fuzz(func(t *testing.T, id, chain, messageType, replyTo string, seconds int64, lines string, body []byte) {
		if len(replyTo) > 255 || len(messageType) > 255 { // which no frame has
			return
		}
		d := amqp.Delivery{
			DeliveryTag: 1, MessageId: id, CorrelationId: chain, Type: messageType, ReplyTo: replyTo,
			Timestamp: time.Unix(seconds, 0), Headers: fuzzTable(lines), Body: body,
		}
		msg, err := amqpwire.Marshaler{}.Unmarshal(d)
		if err != nil || string(msg.Payload) != string(body) {
			t.Fatalf("%v, error %v", msg, err)
		}
		for key, value := range msg.Metadata {
			if strings.HasPrefix(key, "envelope_") || strings.HasPrefix(key, "ankusa_") || !utf8.ValidString(key) || !utf8.ValidString(value) {
				t.Errorf("metadata %q = %q", key, value)
			}
		}
		e, err := bus.FromMessage(msg)
		if good := messageType != "" && utf8.ValidString(messageType); good != (err == nil) {
			t.Fatalf("type %q: error %v", messageType, err)
		} else if !good {
			if !errors.Is(err, bus.ErrInvalidTopology) || !envelope.IsPermanent(err) {
				t.Errorf("class of %v", err)
			}
		} else {
			checkOpened(t, d, e)
		}
		p, err := amqpwire.Marshaler{FrameMax: math.MaxInt32}.Marshal(msg)
		if err != nil {
			t.Fatalf("cannot be passed on: %v", err)
		}
		again, err := amqpwire.Marshaler{}.Unmarshal(delivered(p))
		if err != nil || again.UUID != msg.UUID || again.Metadata["hexeract_type"] != msg.Metadata["hexeract_type"] {
			t.Errorf("passed on as %v %v, error %v", again.UUID, again.Metadata, err)
		}
		for name, value := range d.Headers {
			text, ok := value.(string)
			kept := ok && utf8.ValidString(text) && utf8.ValidString(name) && name != "CC" && name != "BCC" && !strings.HasPrefix(name, "x-")
			if sent, ok := p.Headers[name]; kept && name != "hexeract_malformed" && (!ok || sent != text) {
				t.Errorf("header %q = %q is passed on as %v", name, text, sent)
			}
		}
	})
}

// checkOpened checks the envelope of a delivery with a type.
func checkOpened(t *testing.T, d amqp.Delivery, e *bus.Envelope) {
	t.Helper()
	if e.MessageType != d.Type || d.MessageId != "" && e.MessageID != bus.ID(d.MessageId) || d.CorrelationId != "" && e.CorrelationID != bus.ID(d.CorrelationId) {
		t.Errorf("%v", e)
	}
	if at := e.PublishedAt.Unix(); at != d.Timestamp.Unix() && time.Since(e.PublishedAt).Abs() > time.Hour {
		t.Errorf("published at %d, timestamp %d", at, d.Timestamp.Unix())
	} else if at < 0 {
		t.Errorf("published at %d", at)
	}
	for name, value := range e.Headers {
		if d.Headers[name] != value {
			t.Errorf("header %q = %q, came as %v", name, value, d.Headers[name])
		}
	}
}
