package envelope_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/watermill-envelope/envelope"
)

// agree checks that ParseWire and the oracle say the same of data: the same envelope, or the
// same code and field.
func agree(t *testing.T, data []byte) *envelope.Envelope {
	t.Helper()
	before := bytes.Clone(data)
	want, code, field := oracle(before)
	got, err := envelope.ParseWire(data)
	if !bytes.Equal(data, before) {
		t.Fatalf("the input was changed: %q", before)
	}
	if want == nil {
		var e *envelope.Error
		if !errors.As(err, &e) || e.Code != code || e.Field != field {
			t.Fatalf("%.500q\ngot  %v, %v\nwant %s %q", before, got, err, code, field)
		}
		return nil
	}
	if err != nil {
		t.Fatalf("%.500q\ngot  %v\nwant %#v", before, err, want)
	}
	for i := range data {
		data[i] = '!'
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%.500q\ngot  %#v\nwant %#v", before, got, want)
	}
	return got
}

func seeds() []string {
	var all []string
	for _, r := range refusals() {
		all = append(all, r.text)
	}
	for _, a := range acceptances() {
		all = append(all, a.text)
	}
	return all
}

// The oracle gives the verdict of the tables too.
func TestOracle(t *testing.T) {
	for _, r := range refusals() {
		if _, code, field := oracle([]byte(r.text)); code != r.code || field != r.field {
			t.Errorf("%s: %s %q, want %s %q: %.300s", r.reason, code, field, r.code, r.field, r.text)
		}
	}
	for _, a := range acceptances() {
		if e, code, field := oracle([]byte(a.text)); e == nil {
			t.Errorf("%s: %s %q: %.300s", a.reason, code, field, a.text)
		}
	}
}

func FuzzParseWire(f *testing.F) {
	for _, s := range seeds() {
		if len(s) < 4000 {
			f.Add([]byte(s))
		}
	}
	for _, g := range goldenFiles(f) {
		f.Add(g.text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e := agree(t, bytes.Clone(data))
		if e == nil {
			return
		}
		// What was read can be written, and is then the same hook.
		text, err := e.AppendWire(nil)
		if err != nil {
			t.Fatalf("%.500q was read and not written: %v", data, err)
		}
		again := agree(t, text)
		if again == nil || again.ID != e.ID || !bytes.Equal(again.Body, e.Body) || !bytes.Equal(again.Unknown, e.Unknown) ||
			again.Claim != e.Claim || again.Size != e.Size {
			t.Fatalf("%.500q\nfirst %#v\nagain %#v", data, e, again)
		}
		// The second time nothing is left to change, but for the time when it was zero.
		second, err := again.AppendWire(nil)
		if err != nil || !again.ReceivedAt.IsZero() && !bytes.Equal(second, must(e.AppendWire(nil))) {
			t.Fatalf("written %s\nagain %s, error %v", text, second, err)
		}
		// Decoding into a buffer makes no difference.
		room := make([]byte, 3, 100)
		into, err := envelope.ParseWireInto(room, data)
		if err != nil || !reflect.DeepEqual(into, must(envelope.ParseWire(data))) || string(room) != "\x00\x00\x00" {
			t.Fatalf("into a buffer: %#v, error %v", into, err)
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// FuzzRoundTrip writes any envelope and reads it.
func FuzzRoundTrip(f *testing.F) {
	f.Add("id", "s", "t", "text/plain", "k", "r", "i", "ok", true, int64(1), "a\nb\nA\nc", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"a=b", "inst", "reg", "o", "name\nvalue", []byte(`{"x":1}`), []byte("body"), "")
	f.Add("\x00\"\\", "", "acme", "\u2028", "", "", "", "", false, int64(-1), "\ufffe\n\uffff", "x", "y", "\xff", "", "", "", []byte(nil), []byte{0, 255}, ref)
	f.Add("é", "s", "", "", "k", "", "", "é", false, int64(1<<62), "cookie\nx", "", "", "", "", "", "ankusa_id\nx\ntraceparent\ny", []byte("{}"), []byte(nil), "urn:")
	f.Fuzz(func(t *testing.T, id, source, tenant, contentType, dedupe, replay, key, status string, flagged bool, at int64,
		headers, traceparent, tracestate, instance, region, ordering, metadata string, unknown, body []byte, claim string,
	) {
		e := envelope.Envelope{
			ID: id, SourceID: source, TenantID: tenant, ContentType: contentType, DedupeKey: dedupe, ReplayID: replay, IdempotencyKey: key,
			Verification: envelope.Verification{Status: envelope.VerificationStatus(status), Flagged: flagged},
			ReceivedAt:   time.UnixMilli(at), Headers: pairsOf(headers), Traceparent: traceparent, Tracestate: tracestate,
			Instance: instance, Region: region, OrderingKey: ordering, Unknown: unknown, Body: body,
		}
		for _, h := range pairsOf(metadata) {
			if e.Metadata == nil {
				e.Metadata = make(map[string]string)
			}
			e.Metadata[h.Name] = h.Value
		}
		if claim != "" {
			e.Claim, e.SHA256, e.Size = claim, digestOf(string(body)), 77
		}
		if id == "" {
			e.ID = "x"
		}
		text, err := e.AppendWire(nil)
		var refused *envelope.Error
		if errors.As(err, &refused) {
			if refusable(&e, refused) {
				return
			}
			t.Fatalf("%#v was refused: %v", e, err)
		}
		if !json.Valid(text) || !utf8.Valid(text) {
			t.Fatalf("not JSON: %q", text)
		}
		got := agree(t, text)
		want := written(e)
		if !reflect.DeepEqual(got, &want) {
			t.Fatalf("got  %#v\nwant %#v", got, &want)
		}
	})
}

// refusable reports whether the error is right: the field has something that cannot be written.
func refusable(e *envelope.Envelope, err *envelope.Error) bool {
	var texts []string
	match := oracleRef.FindStringSubmatch(e.Claim)
	switch err.Field {
	case "":
		return err.Code == envelope.CodeTenantMismatch && match != nil && e.TenantID != match[1]+match[2]
	case "id":
		texts = []string{e.ID}
	case "source_id":
		texts = []string{e.SourceID}
	case "tenant_id":
		texts = []string{e.TenantID}
	case "content_type":
		texts = []string{e.ContentType}
	case "dedupe_key":
		texts = []string{e.DedupeKey}
	case "replay_id":
		texts = []string{e.ReplayID}
	case "idempotency_key":
		texts = []string{e.IdempotencyKey}
	case "verification":
		texts = []string{string(e.Verification.Status)}
	case "traceparent":
		texts = []string{e.Traceparent}
	case "tracestate":
		texts = []string{e.Tracestate}
	case "instance":
		texts = []string{e.Instance}
	case "region":
		texts = []string{e.Region}
	case "ordering_key":
		texts = []string{e.OrderingKey}
	case "headers":
		for _, h := range e.Headers {
			texts = append(texts, h.Name, h.Value)
		}
	case "watermill_metadata":
		for name, value := range e.Metadata {
			texts = append(texts, name, value)
		}
	case "unknown":
		wrapped := bytes.Trim(e.Unknown, " \t\r\n")
		if !oracleJSON(wrapped) || wrapped[0] != '{' {
			return true
		}
		for _, m := range oracleMembers(wrapped) {
			if slices.Contains(memberNames, m.name) {
				return true
			}
		}
		return false
	case "claim":
		return match == nil
	}
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return true
		}
	}
	return false
}

// written is what comes back of an envelope that was written.
func written(e envelope.Envelope) envelope.Envelope {
	e.ReceivedAt = e.ReceivedAt.UTC()
	if e.IdempotencyKey == "" {
		e.IdempotencyKey = e.DeduplicationKey()
	}
	if e.Verification.Status == "" {
		e.Verification.Status = envelope.VerificationSkipped
	}
	headers, _ := envelope.ForwardHeaders(e.Headers, envelope.ForwardOptions{MaxHeaders: 1 << 30, MaxHeaderBytes: 1 << 30})
	e.Headers = headers
	if !envelope.ValidTraceparent(e.Traceparent) {
		e.Traceparent, e.Tracestate = "", ""
	}
	e.Tracestate = envelope.TruncateTracestate(e.Tracestate)
	metadata := make(map[string]string)
	for name, value := range e.Metadata {
		if oracleIsUsers(&e, envelope.Header{Name: name, Value: value}) {
			metadata[name] = value
		}
	}
	if e.Metadata = metadata; len(metadata) == 0 {
		e.Metadata = nil
	}
	var unknown []string
	if len(e.Unknown) > 0 {
		for _, m := range oracleMembers(e.Unknown) {
			unknown = append(unknown, m.text)
		}
	}
	if e.Unknown = nil; unknown != nil {
		e.Unknown = []byte("{" + strings.Join(unknown, ",") + "}")
	}
	if e.Claim != "" {
		if len(e.Body) > 0 {
			e.Size = int64(len(e.Body))
		}
		e.Body = nil
		return e
	}
	e.SHA256, e.Size = digestOf(string(e.Body)), int64(len(e.Body))
	if e.Body == nil {
		e.Body = []byte{}
	}
	return e
}

// pairsOf makes headers of lines: name, value, name, value.
func pairsOf(lines string) []envelope.Header {
	var all []envelope.Header
	parts := strings.Split(lines, "\n")
	for i := 0; i+1 < len(parts); i += 2 {
		all = append(all, envelope.Header{Name: parts[i], Value: parts[i+1]})
	}
	return all
}
