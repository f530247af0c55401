package envelope_test

import (
	"bytes"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

// metadataText and parseMetadata are metadata as one text that a fuzzer can change: names
// and values between zero bytes.
func metadataText(m md) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, name, m[name])
	}
	return strings.Join(parts, "\x00")
}

func parseMetadata(text string) md {
	parts := strings.Split(text, "\x00")
	m := md{}
	for i := 0; i+1 < len(parts); i += 2 {
		m[parts[i]] = parts[i+1]
	}
	return m
}

// FuzzFromMessage publishes a message with any metadata. What is prepared is sealed, as long
// as it was said to be, and can be read; and FromMessage takes what Prepare takes.
func FuzzFromMessage(f *testing.F) {
	for _, tt := range prepareTests {
		f.Add(tt.uuid, metadataText(tt.metadata), []byte(tt.payload))
	}
	for _, tt := range sealTests {
		f.Add(tt.uuid, metadataText(tt.metadata), []byte(tt.payload))
	}
	f.Add("", "", []byte(nil))
	f.Add("u", "a\x00\xff\x00b\x00\xff", []byte("x"))
	f.Fuzz(func(t *testing.T, uuid, metadata string, payload []byte) {
		msg := newMessage(uuid, parseMetadata(metadata), string(payload))
		before := maps.Clone(msg.Metadata)
		prepared, err := envelope.Prepare(msg, envelope.Defaults{SourceID: "src"})
		if !maps.Equal(msg.Metadata, before) || !bytes.Equal(msg.Payload, payload) || msg.UUID != uuid && uuid != "" {
			t.Fatal("Prepare changed the caller's message")
		}
		if err != nil {
			var e *envelope.Error
			if !errors.As(err, &e) || prepared != nil {
				t.Fatalf("error %v", err)
			}
			if _, err := envelope.FromMessage(msg); err == nil {
				t.Fatal("FromMessage takes what Prepare refuses")
			}
			return
		}
		if again, err := envelope.Prepare(prepared, envelope.Defaults{}); err != nil || again != prepared {
			t.Fatalf("not idempotent: %v", err)
		}
		checkSealed(t, prepared)
		for _, other := range []*message.Message{envelope.Derive(msg, "n", payload), envelope.Replay(msg, "r")} {
			if p, err := envelope.Prepare(other, envelope.Defaults{SourceID: "src"}); err == nil {
				checkSealed(t, p)
			}
		}
	})
}

// checkSealed seals a prepared message in both of its forms and reads it again.
func checkSealed(t *testing.T, prepared *message.Message) {
	t.Helper()
	for _, o := range []envelope.SealOptions{
		{},
		{EscapeNoncharacters: true},
		{Native: func(name, value string) bool { return len(name)%2 == 0 }},
	} {
		sealed, err := envelope.Seal(nil, prepared, o)
		if said := o.Check(prepared); (said == nil) != (err == nil) {
			t.Fatalf("Seal has error %v, Check said %v", err, said)
		}
		if err != nil {
			continue
		}
		inline, claim := envelope.SealedSize(prepared, o, "t")
		if inline != int64(len(sealed)) || claim < 0 {
			t.Fatalf("SealedSize %d, %d, sealed %d bytes", inline, claim, len(sealed))
		}
		if envelope.IsMalformed(prepared) {
			if !bytes.Equal(sealed, envelope.Raw(prepared)) {
				t.Fatal("a malformed message was changed")
			}
			if _, err := envelope.FromMessage(prepared); err == nil {
				t.Fatal("FromMessage takes a malformed message")
			}
			continue
		}
		parsed, err := envelope.ParseWire(sealed)
		if err != nil {
			t.Fatalf("what was sealed cannot be read: %v\n%s", err, sealed)
		}
		e, err := envelope.FromMessage(prepared)
		if err != nil {
			t.Fatalf("FromMessage refuses what Prepare takes: %v", err)
		}
		if parsed.ID != e.ID || parsed.TenantID != e.TenantID || parsed.Claim != e.Claim || parsed.Size != e.Size ||
			parsed.SHA256 != e.SHA256 || !bytes.Equal(parsed.Body, e.Body) || !parsed.ReceivedAt.Equal(e.ReceivedAt) ||
			parsed.IdempotencyKey != e.IdempotencyKey || parsed.Traceparent != e.Traceparent || parsed.Tracestate != e.Tracestate ||
			!slices.Equal(parsed.Headers, e.Headers) {
			t.Fatalf("sealed\n%#v\nFromMessage has\n%#v", *parsed, *e)
		}
	}
}

// FuzzSealOpen receives any bytes and passes on what can be read. The open form and
// the Envelope of the same bytes are the same, and nothing changes on the way.
func FuzzSealOpen(f *testing.F) {
	for _, tt := range sealTests {
		f.Add([]byte(tt.want))
	}
	for _, file := range goldenFiles(f) {
		f.Add(file.text)
	}
	f.Add([]byte(sealedHello))
	f.Fuzz(func(t *testing.T, data []byte) {
		parsed, parseErr := envelope.ParseWire(data)
		opened, err := envelope.Open(data)
		if (err == nil) != (parseErr == nil) {
			t.Fatalf("Open has error %v, ParseWire %v", err, parseErr)
		}
		if err != nil {
			raw := envelope.OpenMalformed(data, err, "", nil)
			if sealed, err := envelope.Seal(nil, raw, envelope.SealOptions{}); err != nil || !bytes.Equal(sealed, data) {
				t.Fatalf("what cannot be read was not passed on: %v", err)
			}
			return
		}
		prepared, err := envelope.Prepare(opened, envelope.Defaults{})
		if err != nil {
			t.Fatalf("what was read cannot be passed on: %v", err)
		}
		fromMessage, err := envelope.FromMessage(opened)
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := envelope.Seal(nil, prepared, envelope.SealOptions{})
		if err != nil {
			t.Fatal(err)
		}
		again, err := envelope.Open(sealed)
		if err != nil {
			t.Fatalf("what was sealed cannot be read: %v\n%s", err, sealed)
		}
		fromAgain, err := envelope.FromMessage(again)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []*envelope.Envelope{parsed, fromMessage, fromAgain} {
			normalise(e)
		}
		if !reflect.DeepEqual(parsed, fromMessage) {
			t.Fatalf("ParseWire has\n%#v %q\nFromMessage has\n%#v %q", *parsed, parsed.Metadata, *fromMessage, fromMessage.Metadata)
		}
		if !reflect.DeepEqual(fromMessage, fromAgain) {
			t.Fatalf("received\n%#v %q\nreceived again\n%#v %q", *fromMessage, fromMessage.Metadata, *fromAgain, fromAgain.Metadata)
		}
	})
}

// normalise does to an Envelope what writing it does.
func normalise(e *envelope.Envelope) {
	e.IdempotencyKey = e.DeduplicationKey()
	if e.Verification.Status == "" {
		e.Verification.Status = envelope.VerificationSkipped
	}
	if !envelope.ValidTraceparent(e.Traceparent) {
		texts := md{envelope.MetadataTraceparent: e.Traceparent, envelope.MetadataTracestate: e.Tracestate}
		for name, value := range texts {
			if value != "" {
				if e.Metadata == nil {
					e.Metadata = md{}
				}
				e.Metadata[name] = value
			}
		}
		e.Traceparent, e.Tracestate = "", ""
	}
	e.Tracestate = envelope.TruncateTracestate(e.Tracestate)
	e.ReceivedAt = time.UnixMilli(e.ReceivedAt.UnixMilli()).UTC()
	e.Body = append([]byte{}, e.Body...)
	e.SHA256 = ""
	if len(e.Headers) == 0 {
		e.Headers = nil
	}
}
