package bustest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/bus/bustest"
)

// named gives a type its name.
type named struct{}

func (named) MessageType() string { return "tests.type" }

// plain has everything that both languages read alike.
type plain struct {
	ID       uuid.UUID       `json:"id"`
	Text     string          `json:"text"`
	Flag     bool            `json:"flag"`
	Count    int             `json:"count"`
	Cents    int64           `json:"cents"`
	Large    uint64          `json:"large"`
	Option   *string         `json:"option"`
	Absent   *int            `json:"absent,omitempty"`
	Share    *float64        `json:"share"`
	Digest   [4]byte         `json:"digest"`
	At       time.Time       `json:"at"`
	Any      json.RawMessage `json:"any,omitempty" bustest:"ok"`
	Address  address         `json:"address"`
	Lines    []address       `json:"lines" bustest:"ok"`
	Ignored  any             `json:"-"`
	internal any
}

type address struct {
	Street string `json:"street"`
}

func (plain) MessageType() string { return "tests.plain" }

// trapped has one field for each kind of trap.
type trapped struct {
	Bytes     []byte         `json:"bytes,omitempty"`
	Duration  time.Duration  `json:"duration"`
	Interface any            `json:"interface"`
	Float     float64        `json:"float"`
	List      []string       `json:"list"`
	Map       map[string]int `json:"map"`
	Omitted   string         `json:"omitted,omitempty"`
	Zero      address        `json:"zero,omitzero"`
	Case      string         `json:"case"`
	OtherCase string         `json:"CASE"`
	Twice     string         `json:"twice"`
	Untagged  string
	Quoted    int               `json:"quoted,string"`
	Empty     struct{}          `json:"empty"`
	Nested    []nested          `json:"nested" bustest:"ok"`
	Values    map[string]nested `json:"values" bustest:"ok"`
	Recursive *trapped          `json:"recursive"`
	common
}

type nested struct {
	Delay []time.Duration `json:"delay" bustest:"ok"`
	Wait  *time.Duration  `json:"wait"`
	Sizes []float32       `json:"sizes" bustest:"ok"`
	Bytes [][]byte        `json:"bytes,omitempty"`
}

type common struct {
	Inner string `json:"inner"`
	Again string `json:"twice"`
	Upper string `json:"TWICE"`
}

func (trapped) MessageType() string { return "tests.trapped" }

func TestPlainTypesHaveNoTraps(t *testing.T) {
	option, share := "o", 0.5
	if traps := bustest.Traps(plain{}, plain{
		ID: uuid.Max, Text: "<größe>\u2028", Large: math.MaxUint64, Cents: math.MinInt64, Option: &option, Share: &share,
		At: time.Unix(1737500000, 5), Any: json.RawMessage(`{"a":[1]}`), Lines: []address{{"s"}}, internal: 1,
	}); len(traps) != 0 {
		t.Errorf("%v", traps)
	}
}

func TestTraps(t *testing.T) {
	want := []string{
		"Bytes omitted", "Bytes bytes", "Duration duration", "Interface interface", "Float float", "List null", "Map null",
		"Omitted omitted", "Zero omitted", "OtherCase folded", "Untagged untagged", "Quoted quoted", "Empty empty",
		"Nested[].Wait duration", "Nested[].Bytes omitted", "Nested[].Bytes[] bytes", "common embedded", "Again hidden", "Upper folded",
	}
	got := make([]string, 0, len(want))
	for _, trap := range bustest.Traps[trapped]() {
		got = append(got, trap.Path+" "+string(trap.Kind))
		if trap.Why == "" {
			t.Errorf("%s: no reason", trap)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if pointers := bustest.Traps[*trapped](); !reflect.DeepEqual(pointers, bustest.Traps[trapped]()) {
		t.Errorf("a pointer: %v", pointers)
	}
}

type channel struct {
	named
	C chan int `json:"c"`
}

type ratio struct {
	named
	R float64 `json:"r" bustest:"ok"`
}

type whatever struct {
	named
	V any `json:"v" bustest:"ok"`
}

type html string

func (html) MessageType() string            { return "tests.type" }
func (h html) MarshalJSON() ([]byte, error) { return json.Marshal(string(h)) }

type oneWay string

func (oneWay) MessageType() string            { return "tests.type" }
func (oneWay) UnmarshalJSON([]byte) error     { return errors.New("cannot be read") }
func (o oneWay) MarshalJSON() ([]byte, error) { return []byte(`{}`), nil }

type text string

func (text) MessageType() string { return "tests.type" }

type list []string

func (list) MessageType() string { return "tests.type" }

type variable string

func (v variable) MessageType() string { return "tests." + string(v) }

type nameless struct {
	A int `json:"a"`
}

func (nameless) MessageType() string { return "" }

type longName string

func (longName) MessageType() string { return strings.Repeat("n", 65) }

type badName string

func (badName) MessageType() string { return "a\xff" }

// What only the values show.
func TestTrapsOfValues(t *testing.T) {
	tests := map[string]struct {
		traps []bustest.Trap
		want  []bustest.Kind
	}{
		"a channel":               {bustest.Traps[channel](), []bustest.Kind{"unencodable", "unencodable"}},
		"NaN":                     {bustest.Traps(ratio{R: math.NaN()}), []bustest.Kind{"unencodable"}},
		"an infinity":             {bustest.Traps(ratio{R: math.Inf(-1)}), []bustest.Kind{"unencodable"}},
		"a number in a sample":    {bustest.Traps(ratio{R: 1e21}), nil},
		"a large integer":         {bustest.Traps(whatever{V: int64(math.MaxInt64)}), []bustest.Kind{"lossy"}},
		"a small integer":         {bustest.Traps(whatever{V: 1}), nil},
		"bytes in a text":         {bustest.Traps[text]("a\xff"), []bustest.Kind{"lossy"}},
		"HTML in a MarshalJSON":   {bustest.Traps[html]("a<b"), []bustest.Kind{"escaped"}},
		"what looks like escapes": {bustest.Traps[html](`a\u003c`), nil},
		"HTML in a text":          {bustest.Traps[text]("a<b>&\u2028"), nil},
		"one way":                 {bustest.Traps[oneWay](), []bustest.Kind{"lossy"}},
		"a list":                  {bustest.Traps[list](list{"a"}), nil},
		"no name":                 {bustest.Traps[nameless](), []bustest.Kind{"name"}},
		"a long name":             {bustest.Traps[longName](), []bustest.Kind{"name"}},
		"a name that is no text":  {bustest.Traps[badName](), []bustest.Kind{"name"}},
		"a name that varies":      {bustest.Traps[variable]("b"), []bustest.Kind{"name"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []bustest.Kind
			for _, trap := range tt.traps {
				got = append(got, trap.Kind)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v", tt.traps, tt.want)
			}
		})
	}
}

// A reporter is a test that keeps its errors.
type reporter struct {
	testing.TB
	errors []string
}

func (*reporter) Helper() {}

func (r *reporter) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestCheckMessage(t *testing.T) {
	bustest.CheckMessage(t, plain{}) // as users do
	var r reporter
	bustest.CheckMessage[nameless](&r)
	bustest.CheckMessage[text](&r, "\xff")
	want := []string{
		"bustest_test.nameless: name: the message type is empty",
		"bustest_test.text: lossy: what is read is not what was written, in 8 bytes of JSON",
	}
	if !slices.Equal(r.errors, want) {
		t.Errorf("%q, want %q", r.errors, want)
	}
}

var _ bus.Message = trapped{}

type refund struct {
	OrderID string        `json:"order_id"`
	Proof   []byte        `json:"proof" bustest:"ok"` // a base64 string in Rust
	After   time.Duration `json:"after"`
}

func (refund) MessageType() string { return "orders.refund" }

func ExampleTraps() {
	for _, trap := range bustest.Traps(refund{OrderID: "o-1", Proof: []byte("p"), After: time.Hour}) {
		fmt.Println(trap)
	}
	// Output:
	// After: duration: nanoseconds in Go, an object of secs and nanos in Rust
}
