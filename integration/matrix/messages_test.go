package matrix

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// A hook is one of the 40 messages: what is published, and what it should be in the end.
type hook struct {
	name string
	sent envelope.Envelope
	// plain says that it is published as a message of Watermill that carries no envelope.
	plain bool
}

// message is what is published.
func (h hook) message() *message.Message {
	if h.plain {
		msg := message.NewMessage(h.sent.ID, h.sent.Body)
		maps.Copy(msg.Metadata, h.sent.Metadata)
		return msg
	}
	sent := h.sent
	return sent.Message()
}

// want is what should arrive where got did, by a run that began at begin.
func (h hook) want(got *envelope.Envelope, begin time.Time) *envelope.Envelope {
	want := h.sent
	if h.plain {
		want.SourceID, want.ContentType = source, want.Metadata["content_type"]
	}
	if want.IdempotencyKey == "" {
		want.IdempotencyKey = want.ID
		if want.DedupeKey != "" {
			tenant := want.TenantID
			if tenant == "" {
				tenant = "default"
			}
			want.IdempotencyKey = tenant + ":" + want.SourceID + ":" + want.DedupeKey
		}
	}
	if want.Verification.Status == "" {
		want.Verification.Status = envelope.VerificationSkipped
	}
	if want.ReceivedAt.IsZero() {
		want.ReceivedAt = begin // of its publishing, which is not known to the millisecond
		if !got.ReceivedAt.Before(begin.Truncate(time.Millisecond)) && !got.ReceivedAt.After(time.Now()) {
			want.ReceivedAt = got.ReceivedAt
		}
	}
	if want.Claim == "" && len(want.Body) > hookmw.DefaultInlineMaxBytes {
		want.Claim = "one of a claim check"
		if _, err := claimcheck.ParseRef(got.Claim); err == nil {
			want.Claim = got.Claim
		}
	}
	return &want
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// everyField is an envelope with all there is but a claim, which cannot be beside an inline body.
func everyField(id string) *envelope.Envelope {
	body := []byte(`{"n":1}`)
	return &envelope.Envelope{
		ID: id, SourceID: "stripe", TenantID: "acme", ReceivedAt: at, ContentType: "application/json; charset=utf-8",
		Headers: []envelope.Header{{Name: "x-a", Value: "1"}, {Name: "x-b", Value: "2"}},
		Body:    body, Size: int64(len(body)), SHA256: digest(body),
		DedupeKey: "evt_1", ReplayID: "replay-1", IdempotencyKey: "a key of its own",
		Verification: envelope.Verification{Status: envelope.VerificationOK, Flagged: true},
		Traceparent:  traceparent, Tracestate: "vendor=a,other=b", Instance: "blue", Region: "eu-west-1",
		OrderingKey: "lane 1", Metadata: map[string]string{"one": "1", "empty": "", "correlation_id": "c"},
		Unknown: []byte(`{"new":{"a": [1,2.50,null]},"flag":true}`),
	}
}

// at is when the messages were received.
var at = time.UnixMilli(1_737_500_000_123).UTC()

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// hooks are the messages that go in by one end, with ids that no other end's have.
func hooks(t testing.TB, end int, stored claim) []hook {
	t.Helper()
	var all []hook
	add := func(name string, change func(e *envelope.Envelope)) {
		e := envelope.Envelope{
			ID:       uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%d %s", end, name)).String(),
			SourceID: "github", TenantID: "acme", ReceivedAt: at, ContentType: "application/json", Body: []byte(`{"zen":"Keep it logically awesome."}`),
		}
		change(&e)
		e.Size, e.SHA256 = int64(len(e.Body)), digest(e.Body)
		all = append(all, hook{name: name, sent: e})
	}
	addFields(add)
	addBodies(add, stored)
	addMetadata(add)
	add("no envelope", func(e *envelope.Envelope) {
		*e = envelope.Envelope{ID: e.ID, Body: []byte("plain"), Metadata: map[string]string{"content_type": "text/plain", "trace": "1"}}
	})
	all[len(all)-1].plain = true
	const count = 40
	if len(all) != count {
		t.Fatalf("there are %d messages, want %d", len(all), count)
	}
	return all
}

type adder = func(name string, change func(e *envelope.Envelope))

func addFields(add adder) {
	add("every field", func(e *envelope.Envelope) { *e = *everyField(e.ID) })
	add("no field", func(e *envelope.Envelope) { *e = envelope.Envelope{ID: e.ID} })
	add("64 headers", func(e *envelope.Envelope) {
		for i := range 64 {
			e.Headers = append(e.Headers, envelope.Header{Name: fmt.Sprintf("x-header-%02d", 63-i), Value: strings.Repeat("v", 3*i)})
		}
	})
	add("headers that look odd", func(e *envelope.Envelope) {
		e.Headers = []envelope.Header{{Name: "x-empty"}, {Name: "x-quote", Value: `a "b" \c, <d> & 'e'`}, {Name: "content_type", Value: "x"}, {Name: "ankusa_id", Value: "y"}}
	})
	add("unicode", func(e *envelope.Envelope) {
		e.ID, e.SourceID, e.TenantID = "ключ-✓-"+e.ID, "källa", "租户"
		e.ContentType, e.DedupeKey, e.ReplayID, e.OrderingKey = "text/ü", "ダブり 1", "повтор", "vía № 1"
		e.Instance, e.Region, e.Headers = "ßlue", "欧洲", []envelope.Header{{Name: "x-é", Value: "e\u0301 😀 \u2028 \uFFFD"}}
		e.Metadata = map[string]string{"名前": "値", "emoji": "👩‍👩‍👧", "nonchar": "\uFFFE\uFFFF"}
	})
	add("long texts", func(e *envelope.Envelope) {
		e.ID, e.SourceID, e.TenantID = e.ID+strings.Repeat("i", 400), strings.Repeat("s", 300), strings.Repeat("t", 300)
		e.DedupeKey, e.ReplayID, e.OrderingKey = strings.Repeat("d", 2000), strings.Repeat("r", 300), strings.Repeat("o", 300)
	})
	add("texts with control characters", func(e *envelope.Envelope) {
		e.SourceID, e.TenantID, e.DedupeKey = " a\r\nb ", "c\x00d", "\t\x1f\x7f"
		e.ReplayID, e.OrderingKey, e.Instance = "e\nf", " ", "g\bh"
	})
	add("a replay", func(e *envelope.Envelope) { e.ReplayID, e.DedupeKey = "01J9Z0", "evt_2" })
	add("an ordering key", func(e *envelope.Envelope) { e.OrderingKey = "invoice/42" })
	add("a dedupe key", func(e *envelope.Envelope) { e.DedupeKey, e.TenantID = "evt 3:é", "" })
	add("an idempotency key", func(e *envelope.Envelope) { e.IdempotencyKey, e.DedupeKey = "own:key", "evt_4" })
	add("no tenant", func(e *envelope.Envelope) { e.TenantID = "" })
	for _, v := range []envelope.Verification{{Status: envelope.VerificationOK}, {Status: envelope.VerificationFailed, Flagged: true}, {Status: "later ✓"}} {
		add("verification "+string(v.Status), func(e *envelope.Envelope) { e.Verification = v })
	}
	add("received before 1970", func(e *envelope.Envelope) { e.ReceivedAt = time.UnixMilli(-62_000_000_001).UTC() })
	add("received in the year 9999", func(e *envelope.Envelope) { e.ReceivedAt = time.UnixMilli(253_402_300_799_999).UTC() })
	add("a trace", func(e *envelope.Envelope) {
		e.Traceparent, e.Tracestate = traceparent, strings.Repeat("k=v,", 127)+"k=v"
	})
	add("a trace of a later version", func(e *envelope.Envelope) { e.Traceparent = "01" + traceparent[2:] + "-more" })
	add("members that are not known", func(e *envelope.Envelope) {
		e.Unknown = []byte(`{"b":1.0,"a":"\u00e9","V":[ ],"big":123456789012345678901234567890}`)
	})
	add("instance and region", func(e *envelope.Envelope) { e.Instance, e.Region = "default", "us-east-1" })
}

// A claim is a body that lies in the store when the run begins.
type claim struct {
	ref  string
	body []byte
}

func addBodies(add adder, stored claim) {
	const inline = hookmw.DefaultInlineMaxBytes
	body := func(name string, b []byte) { add(name, func(e *envelope.Envelope) { e.Body = b }) }
	var all [256]byte
	for i := range all {
		all[i] = byte(i)
	}
	body("all byte values", all[:])
	body("empty body", nil)
	body("body of one zero byte", []byte{0})
	body("body that looks like a message", []byte(`{"v":1,"id":"x","body_base64":""}`))
	body("body just under the limit", bytes.Repeat([]byte{0xff}, inline))
	body("body just over the limit", bytes.Repeat([]byte{0xfe}, inline+1))
	body("body over every limit", bytes.Repeat(all[:], 11<<20/len(all)))
	add("a claim", func(e *envelope.Envelope) { e.Claim, e.Body = stored.ref, stored.body })
	add("a claim, replayed", func(e *envelope.Envelope) {
		e.Claim, e.Body, e.ReplayID, e.OrderingKey = stored.ref, stored.body, "again", "lane"
	})
	add("a body of a hook without tenant", func(e *envelope.Envelope) { e.TenantID, e.Body = "", bytes.Repeat([]byte{1}, 100_000) })
}

func addMetadata(add adder) {
	metadata := func(name string, md map[string]string) {
		add(name, func(e *envelope.Envelope) { e.Metadata = md })
	}
	metadata("metadata", map[string]string{"correlation_id": "1", "_watermill_requeuer_retries": "2", "reason_poisoned": "a failure"})
	metadata("metadata with empty values", map[string]string{"empty": "", "content_type": "", "x-empty": "", "full": "x"})
	metadata("metadata no header can hold", map[string]string{
		"lines": "a\r\nb\n", "edges": "  x\t", "control": "\x00\x01\x1f\x7f", "a name: with \"quotes\"": "x", "name\nbreak": "x",
		"": "no name", strings.Repeat("n", 300): "x", "long": strings.Repeat("v", 3000), "dots..": "x", ".dot": "x",
	})
	metadata("metadata of names that are taken", map[string]string{
		"Content-Type": "text/x", "Nats-Msg-Id": "1", "Nats-Expected-Stream": "none", "Nats-Rollup": "all", "Status": "503", "payload": "x", "meta:x": "x",
		"x-death": "x", "x-delivery-count": "3", "CC": "x", "BCC": "x", "googclient_x": "x", "AWS.x": "x", "Amazon.y": "y", "AWSTraceHeader": "z", "UUID": "x", "uuid": "x",
		"Message-Uuid": "x", "Metadata": "{}", "key": "x", "partition": "1", "message_id": "x", "hexeract_attempts": "4", "v": "2", "body_base64": "x", "watermill_metadata": "{}",
	})
	metadata("content_type", map[string]string{"content_type": "text/plain", "Content_Type": "x", "CONTENT-TYPE": "y"})
	metadata("metadata of names in several cases", map[string]string{"Key": "1", "KEY": "2", "key": "3", "kEY": ""})
	many := map[string]string{}
	for i := range 120 {
		many[fmt.Sprintf("m%03d", i)] = strings.Repeat("x", i)
	}
	metadata("120 entries of metadata", many)
	metadata("metadata of 150,000 bytes", map[string]string{"large": strings.Repeat("é", 75_000)})
}
