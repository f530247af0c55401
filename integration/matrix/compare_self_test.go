package matrix

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
)

// Every field that is changed is found, and no other.
func TestCompareFindsEveryField(t *testing.T) {
	fields := reflect.TypeFor[envelope.Envelope]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		want, got := everyField("id"), everyField("id")
		if found := differences(want, got); len(found) != 0 {
			t.Fatalf("two that are equal: %q", found)
		}
		f := reflect.ValueOf(got).Elem().Field(i)
		if f.IsZero() && name != "Claim" { // no body has both
			t.Errorf("%s of the message with every field is not set", name)
		}
		switch v := f.Interface().(type) {
		case string:
			f.SetString(v + "x")
		case int64:
			f.SetInt(v + 1)
		case []byte:
			f.SetBytes(append([]byte{0}, v...))
		case time.Time:
			f.Set(reflect.ValueOf(v.Add(time.Millisecond)))
		case envelope.Verification:
			f.Set(reflect.ValueOf(envelope.Verification{Status: v.Status, Flagged: !v.Flagged}))
		case []envelope.Header:
			v[1].Value += "x"
		case map[string]string:
			v["one"] += "x"
		default:
			t.Fatalf("nothing is known of the type of %s", name)
		}
		if found := differences(want, got); len(found) != 1 || !strings.HasPrefix(found[0], name) {
			t.Errorf("%s was changed, found %q", name, found)
		}
	}
}

func TestCompareFindsEntries(t *testing.T) {
	for _, c := range []struct {
		change func(e *envelope.Envelope)
		want   string
	}{
		{func(e *envelope.Envelope) { delete(e.Metadata, "empty") }, `Metadata["empty"] is lost, want ""`},
		{func(e *envelope.Envelope) { e.Metadata["new"] = "x" }, `Metadata["new"] is "x", want none`},
		{func(e *envelope.Envelope) { e.Headers = e.Headers[:1] }, `Headers[1] is lost, want {"x-b" "2"}`},
		{func(e *envelope.Envelope) { e.Headers = append(e.Headers, envelope.Header{Name: "c"}) }, `Headers[2] is {"c" ""}, want none`},
		{func(e *envelope.Envelope) { e.Headers[0], e.Headers[1] = e.Headers[1], e.Headers[0] }, `Headers[0] is {x-b 2}, want {x-a 1}`},
		{func(e *envelope.Envelope) { e.Body = nil }, `Body is "" (0 bytes), want "{\"n\":1}" (7 bytes)`},
	} {
		got := everyField("id")
		c.change(got)
		if found := differences(everyField("id"), got); len(found) == 0 || found[0] != c.want {
			t.Errorf("found %q, want %s", found, c.want)
		}
	}
}

// The table says which pair, which message and which field.
func TestTableNamesWhatDiffers(t *testing.T) {
	m := newTable([]string{"a", "b"}, 2)
	for _, p := range []pair{{0, 0}, {0, 1}, {1, 0}, {1, 1}} {
		m.arrived(p, "first", nil)
		if p != (pair{1, 1}) {
			m.arrived(p, "second", nil)
		}
	}
	m.arrived(pair{0, 1}, "first", []string{"again, and not looked at"})
	if text := m.String(); m.complete() || !strings.Contains(text, "b -> b: 1 of 2 messages arrived") {
		t.Errorf("complete %v:\n%s", m.complete(), text)
	}
	m.arrived(pair{1, 1}, "second", nil)
	if text := m.String(); !m.complete() || !m.ok() || !strings.Contains(text, "\n 2 b"+strings.Repeat("  ok", 2)+"\n") {
		t.Errorf("complete %v, ok %v:\n%s", m.complete(), m.ok(), text)
	}
	m = newTable([]string{"a", "b"}, 1)
	m.arrived(pair{0, 1}, "first", []string{"Body is x"})
	if text := m.String(); m.ok() || !strings.Contains(text, "a -> b: first: Body is x\n") || !strings.Contains(text, "\n 1 a  --  NO\n") {
		t.Errorf("ok %v:\n%s", m.ok(), text)
	}
	m.stray(1, "something")
	if text := m.String(); !strings.Contains(text, "? -> b: something\n") {
		t.Error(text)
	}
}
