package marshaler_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler"
)

// benchMessage is an open message with 16 provider headers and a body of so many bytes.
func benchMessage(body int) *message.Message {
	var headers strings.Builder
	for i := range 16 {
		fmt.Fprintf(&headers, `,"x-github-header-%d":"a value of thirty-two bytes, %04d"`, i, i)
	}
	msg := hooktest.With(hook(), "ankusa_headers", "{"+headers.String()[1:]+"}", "correlation_id", "c-1")
	msg.Payload = make([]byte, body)
	for i := range msg.Payload {
		msg.Payload[i] = byte(i * 7)
	}
	return msg
}

var benchWire = marshaler.Wire{Native: anything, TenantAlways: true, MaxMessageBytes: 1 << 20}

// BenchmarkSealOpen seals an open message and opens the result, as a marshaler does.
// impl=naive is what one writes in an afternoon: encoding/json and a map of attributes.
func BenchmarkSealOpen(b *testing.B) {
	for _, size := range []struct {
		name string
		body int
	}{{"body=1KiB", 1 << 10}, {"body=64KiB", 64 << 10}} {
		msg := benchMessage(size.body)
		sealed, native := benchSeal(b, msg)
		naive, naiveNative, err := naiveSeal(msg)
		if err != nil {
			b.Fatal(err)
		}
		run := func(name string, f func(b *testing.B)) {
			b.Run(size.name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(size.body))
				b.ReportAllocs()
				for b.Loop() {
					f(b)
				}
			})
		}
		run("op=seal/impl=ours", func(b *testing.B) { benchSeal(b, msg) })
		run("op=seal/impl=naive", func(b *testing.B) {
			if _, _, err := naiveSeal(msg); err != nil {
				b.Fatal(err)
			}
		})
		run("op=open/impl=ours", func(b *testing.B) { benchOpen(b, sealed, native) })
		run("op=open/impl=naive", func(b *testing.B) {
			if _, err := naiveOpen(naive, naiveNative); err != nil {
				b.Fatal(err)
			}
		})
		run("op=both/impl=ours", func(b *testing.B) {
			body, native := benchSeal(b, msg)
			benchOpen(b, body, native)
		})
		run("op=both/impl=naive", func(b *testing.B) {
			body, native, err := naiveSeal(msg)
			if err != nil {
				b.Fatal(err)
			}
			if _, err = naiveOpen(body, native); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func benchSeal(b *testing.B, msg *message.Message) ([]byte, []marshaler.Attribute) {
	w := benchWire
	prepared, err := w.Prepare(msg)
	if err != nil {
		b.Fatal(err)
	}
	size := w.Size(prepared, "")
	if err := w.Check(size); err != nil {
		b.Fatal(err)
	}
	sealed, err := w.Seal(prepared, size)
	if err != nil {
		b.Fatal(err)
	}
	return sealed.Body, sealed.Attributes
}

func benchOpen(b *testing.B, body []byte, native []marshaler.Attribute) {
	w := benchWire
	msg := w.Open(marshaler.Received{Body: body, Native: func(yield func(name, value string) bool) {
		for _, a := range native {
			if !yield(a.Name, a.Value) {
				return
			}
		}
	}})
	if envelope.IsMalformed(msg) {
		b.Fatal(msg.Metadata["envelope_malformed"])
	}
}

// BenchmarkSize is what a middleware pays to know what fits.
func BenchmarkSize(b *testing.B) {
	w := benchWire
	msg := benchMessage(64 << 10)
	b.Run("body=64KiB/op=size", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if s := w.Size(msg, "acme"); s.Inline < 64<<10 {
				b.Fatal(s)
			}
		}
	})
	b.Run("body=64KiB/op=seal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			benchSeal(b, msg)
		}
	})
}

// naiveMessage is the message of the naive marshaler: encoding/json on a tagged struct.
type naiveMessage struct {
	V              int               `json:"v"`
	ID             string            `json:"id"`
	SourceID       string            `json:"source_id"`
	TenantID       *string           `json:"tenant_id"`
	ReceivedAt     int64             `json:"received_at"`
	ContentType    *string           `json:"content_type"`
	Size           int               `json:"size"`
	DedupeKey      *string           `json:"dedupe_key"`
	ReplayID       *string           `json:"replay_id"`
	IdempotencyKey string            `json:"idempotency_key"`
	Verification   naiveVerification `json:"verification"`
	Headers        map[string]string `json:"headers"`
	Traceparent    *string           `json:"traceparent"`
	Tracestate     *string           `json:"tracestate"`
	Instance       *string           `json:"instance"`
	Region         *string           `json:"region"`
	OrderingKey    string            `json:"ordering_key,omitempty"`
	SHA256         string            `json:"sha256"`
	Body           []byte            `json:"body_base64"`
}

type naiveVerification struct {
	Status  string `json:"status"`
	Flagged bool   `json:"flagged"`
}

func naiveSeal(msg *message.Message) ([]byte, map[string]string, error) {
	md := msg.Metadata
	receivedAt, err := strconv.ParseInt(md["ankusa_received_at"], 10, 64)
	if err != nil {
		return nil, nil, err
	}
	var headers map[string]string
	if err := json.Unmarshal([]byte(md["ankusa_headers"]), &headers); err != nil {
		return nil, nil, err
	}
	orNull := func(name string) *string {
		if s := md[name]; s != "" {
			return &s
		}
		return nil
	}
	digest := sha256.Sum256(msg.Payload)
	body, err := json.Marshal(naiveMessage{
		V: 1, ID: msg.UUID, SourceID: md["ankusa_source_id"], TenantID: orNull("ankusa_tenant_id"),
		ReceivedAt: receivedAt, ContentType: orNull("ankusa_content_type"), Size: len(msg.Payload),
		DedupeKey: orNull("ankusa_dedupe_key"), ReplayID: orNull("ankusa_replay_id"),
		IdempotencyKey: md["ankusa_idempotency_key"],
		Verification:   naiveVerification{md["ankusa_verification"], md["ankusa_verification_flagged"] != ""},
		Headers:        headers,
		Traceparent:    orNull("traceparent"), Tracestate: orNull("tracestate"),
		Instance: orNull("ankusa_instance"), Region: orNull("ankusa_region"), OrderingKey: md["ankusa_ordering_key"],
		SHA256: hex.EncodeToString(digest[:]), Body: msg.Payload,
	})
	native := map[string]string{"ankusa_message_version": "1", "content_type": "application/json"}
	for name, value := range md {
		switch name {
		case "ankusa_id", "ankusa_source_id", "ankusa_tenant_id", "ankusa_idempotency_key", "ankusa_dedupe_key",
			"ankusa_replay_id", "ankusa_ordering_key", "traceparent", "tracestate":
			native[name] = value
		default:
			if !envelope.IsReserved(name) {
				native[name] = value
			}
		}
	}
	return body, native, err
}

func naiveOpen(data []byte, native map[string]string) (*message.Message, error) {
	var m naiveMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	digest := sha256.Sum256(m.Body)
	if m.V != 1 || m.ID == "" || m.Size != len(m.Body) || m.SHA256 != hex.EncodeToString(digest[:]) {
		return nil, errors.New("invalid message")
	}
	headers, err := json.Marshal(m.Headers)
	if err != nil {
		return nil, err
	}
	msg := message.NewMessage(m.ID, m.Body)
	for name, value := range native {
		if !envelope.IsReserved(name) && name != "content_type" {
			msg.Metadata[name] = value
		}
	}
	set := func(name string, value *string) {
		if value != nil {
			msg.Metadata[name] = *value
		}
	}
	msg.Metadata["ankusa_id"] = m.ID
	msg.Metadata["ankusa_source_id"] = m.SourceID
	msg.Metadata["ankusa_received_at"] = strconv.FormatInt(m.ReceivedAt, 10)
	msg.Metadata["ankusa_idempotency_key"] = m.IdempotencyKey
	msg.Metadata["ankusa_verification"] = m.Verification.Status
	msg.Metadata["ankusa_headers"] = string(headers)
	msg.Metadata["ankusa_size"] = strconv.Itoa(m.Size)
	msg.Metadata["ankusa_sha256"] = m.SHA256
	set("ankusa_tenant_id", m.TenantID)
	set("ankusa_content_type", m.ContentType)
	set("ankusa_dedupe_key", m.DedupeKey)
	set("ankusa_replay_id", m.ReplayID)
	set("traceparent", m.Traceparent)
	set("tracestate", m.Tracestate)
	set("ankusa_instance", m.Instance)
	set("ankusa_region", m.Region)
	return msg, nil
}
