package hexeract

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/outbox"
)

// shapes are values that every side reads as they were written.
var shapes = []struct{ name, value string }{
	{"null", `null`},
	{"true", `true`},
	{"empty object", `{}`},
	{"empty array", `[]`},
	{"empty string", `""`},
	{"empty name", `{"": 1}`},
	{"zero", `0`},
	{"largest signed", `9223372036854775807`},
	{"smallest signed", `-9223372036854775808`},
	{"largest unsigned", `18446744073709551615`},
	{"fraction", `0.1`},
	// Rust reads long fractions of large numbers to within their last bit, and the largest ones
	// not at all when PostgreSQL has written all their digits.
	{"large exponent", `1.5e300`},
	{"small exponent", `2.2250738585072014e-308`},
	{"exponent of a whole number", `1e3`},
	{"fraction of zero", `1.0`},
	{"escapes", `"\" \\ \/ \b \f \n \r \t"`},
	{"HTML", `"<a href='x'>&amp;</a>"`},
	{"line separators", `"\u2028\u2029"`},
	{"control characters", `"\u0001\u001f\u007f\u0080"`},
	{"umlauts", `"Größe 北京 ελληνικά"`},
	{"outside the plane", `"😀 \ud83d\ude00 𝄞"`},
	{"the last code point", `"\udbff\udfff\uffff"`},
	{"combined", `"e\u0301 é"`},
	{"order of members", `{"b": 1, "a": 2, "aa": 3, "B": 4}`},
	{"nested", `{"a": [{"b": [1, [2, {"c": null}]]}, {}], "d": {"e": {"f": []}}}`},
	{"126 deep", strings.Repeat("[", 126) + strings.Repeat("]", 126)},
	{"long string", `"` + strings.Repeat("x", 20_000) + `"`},
	{"many members", manyMembers()},
}

func manyMembers() string {
	var b strings.Builder
	for n := range 500 {
		fmt.Fprintf(&b, `,"member %d":%d`, n, n)
	}
	return "{" + b.String()[1:] + "}"
}

// encodeJSON returns v as JSON.
func encodeJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// normal returns JSON in one form for each value, numbers as what they are.
func normal(t *testing.T, text []byte) string {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	var of func(v any) any
	of = func(v any) any {
		switch v := v.(type) {
		case json.Number:
			number, ok := new(big.Rat).SetString(v.String())
			if !ok {
				t.Fatalf("number %s", v)
			}
			return "number " + number.RatString()
		case []any:
			for i := range v {
				v[i] = of(v[i])
			}
		case map[string]any:
			for name := range v {
				v[name] = of(v[name])
			}
		}
		return v
	}
	return encodeJSON(t, of(v))
}

// Rust's worker delivers what we write, in every way of writing and in every shape that JSON has.
func TestOutboxToRust(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, d *outboxDatabase) {
		peer, o := StartOutbox(t, d.address), d.apply(t)
		type sent struct{ name, eventType, event string }
		want := make(map[uuid.UUID]sent)
		for n, shape := range shapes {
			event := Anything{Value: json.RawMessage(shape.value)}
			var id uuid.UUID
			var err error
			switch n % 4 {
			case 0:
				id = d.inTx(t, func(ctx context.Context, tx *sql.Tx) (uuid.UUID, error) { return o.PublishInTx(ctx, tx, event) })
			case 1:
				id = d.inTx(t, func(ctx context.Context, tx *sql.Tx) (uuid.UUID, error) {
					return o.PublishInTxWithSubject(ctx, tx, uuid.New(), event)
				})
			case 2:
				id, err = o.Publish(t.Context(), d.db, event)
			default:
				id = uuid.New()
				_, err = o.EnqueueIdempotent(t.Context(), d.db, id, event.EventType(), []byte(`{"value": `+shape.value+`}`))
			}
			if err != nil {
				t.Fatalf("%s: %v", shape.name, err)
			}
			want[id] = sent{shape.name, "tests.anything", `{"value": ` + shape.value + `}`}
		}
		id, err := o.Publish(t.Context(), d.db, order("typed"))
		if err != nil {
			t.Fatal(err)
		}
		want[id] = sent{"typed", "orders.placed", encodeJSON(t, order("typed"))}
		peer.Work(t, work(o))
		for range len(want) {
			h, err := peer.next()
			if err != nil {
				t.Fatalf("%v: %.1000v", err, want)
			}
			sent, ok := want[h.EventID]
			if !ok || h.EventType != sent.eventType || h.Failed {
				t.Errorf("handled %.300v, want %s", h, sent.name)
			}
			if got, want := normal(t, h.Event), normal(t, []byte(sent.event)); got != want {
				t.Errorf("%s: got %.300s, want %.300s", sent.name, got, want)
			}
			delete(want, h.EventID)
		}
		d.want(t, o.Table(), "delivered_at IS NOT NULL AND attempts = 1 AND last_error IS NULL", len(shapes)+1)
	})
}

// Our worker delivers the same shapes as Rust writes them.
func TestOutboxShapesFromRust(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, d *outboxDatabase) {
		peer, o := StartOutbox(t, d.address), d.apply(t)
		for _, shape := range shapes {
			peer.Publish(t, PublishEvent{Table: o.Table(), Anything: shape.value})
		}
		messages, _ := d.subscribe(t, o, worker())
		for _, shape := range shapes {
			msg, e := nextEvent(t, messages)
			event, err := outbox.Decode[Anything](e)
			if err != nil {
				t.Fatalf("%s: %v", shape.name, err)
			}
			if got, want := normal(t, event.Value), normal(t, []byte(shape.value)); got != want {
				t.Errorf("%s: got %.300s, want %.300s", shape.name, got, want)
			}
			msg.Ack()
		}
	})
}
