package bus_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/bus"
)

// secretive has a secret wherever a user can put one.
var secretive = bus.Envelope{
	MessageID: messageID, MessageType: "orders.placed", Payload: []byte("secret"), CorrelationID: correlationID,
	ReplyTo: "amq.gen x", Headers: map[string]string{"x-secret": "secret", "b": "secret"}, PublishedAt: publishedAt,
}

const (
	secretiveLine = `bus message_id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 message_type=orders.placed payload=<6 bytes> ` +
		`correlation_id=0199a1c2-0000-7000-8000-00000000002a reply_to="amq.gen x" headers=<2 headers> published_at=2025-01-21T22:53:20.123Z`
	secretiveGo = `bus.Envelope{MessageID:"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10", MessageType:"orders.placed", Payload:<6 bytes>, ` +
		`CorrelationID:"0199a1c2-0000-7000-8000-00000000002a", ReplyTo:"amq.gen x", Headers:<2 headers>, PublishedAt:"2025-01-21T22:53:20.123Z"}`
	secretiveJSON = `{"message_id":"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10","message_type":"orders.placed","payload":"\u003c6 bytes\u003e",` +
		`"correlation_id":"0199a1c2-0000-7000-8000-00000000002a","reply_to":"amq.gen x","headers":"\u003c2 headers\u003e","published_at":"2025-01-21T22:53:20.123Z"}`
)

func TestPrint(t *testing.T) {
	for format, want := range map[string]string{
		"%v": secretiveLine, "%+v": secretiveLine, "%s": secretiveLine, "%d": secretiveLine, "%x": secretiveLine, "%X": secretiveLine,
		"%t": secretiveLine, "%c": secretiveLine, "%U": secretiveLine, "%e": secretiveLine, "%b": secretiveLine, "%o": secretiveLine,
		"% X": secretiveLine, "%#v": secretiveGo, "%q": fmt.Sprintf("%q", secretiveLine), "%.3s": "bus", "%5.3s|": "  bus|",
	} {
		if got := fmt.Sprintf(format, secretive); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", format, got, want)
		}
		if got := fmt.Sprintf(format, &secretive); got != want {
			t.Errorf("%s of a pointer:\n%s\nwant\n%s", format, got, want)
		}
	}
	if secretive.String() != secretiveLine || secretive.GoString() != secretiveGo {
		t.Errorf("%s\n%s", secretive.String(), secretive.GoString())
	}
	for name, text := range map[string]func() ([]byte, error){
		secretiveJSON: func() ([]byte, error) { return json.Marshal(secretive) },
		secretiveLine: secretive.MarshalText,
	} {
		if got, err := text(); err != nil || string(got) != name {
			t.Errorf("%s, error %v, want\n%s", got, err, name)
		}
	}
	if got, err := json.Marshal(&secretive); err != nil || string(got) != secretiveJSON {
		t.Errorf("a pointer: %s, error %v", got, err)
	}
	if got := fmt.Sprint((*bus.Envelope)(nil)); got != "<nil>" {
		t.Errorf("a nil pointer is %q", got)
	}
	empty := `bus message_id=` + uuid.Nil.String() + ` message_type="" payload=<0 bytes> correlation_id=` + uuid.Nil.String() + ` headers=<0 headers>`
	if got := (bus.Envelope{}).String(); got != empty {
		t.Errorf("%s\nwant\n%s", got, empty)
	}
}

// Wherever an Envelope is inside what is printed, its secrets are not.
func TestPrintNested(t *testing.T) {
	type outer struct {
		Message  bus.Envelope
		Messages []bus.Envelope
		Ptr      *bus.Envelope
		Map      map[string]bus.Envelope
		Pointers map[string][]*bus.Envelope
		Any      any
	}
	o := outer{
		secretive,
		[]bus.Envelope{secretive},
		&secretive,
		map[string]bus.Envelope{"k": secretive},
		map[string][]*bus.Envelope{"k": {&secretive}},
		secretive,
	}
	texts := []string{
		fmt.Sprint(o), fmt.Sprint(&o), fmt.Sprint([]any{secretive, &secretive}), fmt.Errorf("failed: %v", secretive).Error(),
		errors.Join(fmt.Errorf("%+v", &secretive), fmt.Errorf("%#v", o)).Error(),
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		texts = append(texts, fmt.Sprintf(verb, o.Message), fmt.Sprintf(verb, o.Messages), fmt.Sprintf(verb, o.Map), fmt.Sprintf(verb, o))
	}
	for _, v := range []any{secretive, &secretive, o, &o, []bus.Envelope{secretive}, map[string]any{"k": &secretive}, slog.GroupValue(slog.Any("m", secretive))} {
		var asText, asJSON bytes.Buffer
		slog.New(slog.NewTextHandler(&asText, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&asJSON, nil)).Info("m", "v", v)
		encoded, err := json.Marshal(v)
		if _, isGroup := v.(slog.Value); err != nil && !isGroup {
			t.Error(err)
		}
		texts = append(texts, asText.String(), asJSON.String())
		if _, isGroup := v.(slog.Value); !isGroup {
			texts = append(texts, string(encoded))
		}
	}
	encoded, err := xml.Marshal(o.Ptr)
	if err != nil {
		t.Error(err)
	}
	for _, text := range append(texts, string(encoded)) {
		for _, secret := range []string{"secret", fmt.Sprintf("%x", "secret"), "115 101 99", "c2VjcmV0"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in\n%s", secret, text)
			}
		}
		if !strings.Contains(text, "6 bytes") && !strings.Contains(text, "(*bus.Envelope)(0x") {
			t.Errorf("no message in\n%s", text)
		}
	}
}

// In a log, the fields stand apart.
func TestLogValue(t *testing.T) {
	for _, v := range []any{secretive, &secretive} {
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "message", v)
		for _, want := range []string{" message.message_type=orders.placed ", ` message.payload="<6 bytes>" `, " message.published_at=2025-01-21T22:53:20.123Z\n"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, out.String())
			}
		}
	}
}

// A foreign producer can write any time of 64 bits.
func TestLogValueOfAnyTime(t *testing.T) {
	for ms, want := range map[int64]string{
		1737500000123: "2025-01-21T22:53:20.123Z", 253402300799999: "9999-12-31T23:59:59.999Z", 253402300800000: "10000-01-01T00:00:00.000Z",
		math.MaxInt64: "292278994-08-17T07:12:55.807Z", -62167219200001: "-0001-12-31T23:59:59.999Z",
	} {
		var out bytes.Buffer
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "message", bus.Envelope{PublishedAt: time.UnixMilli(ms)})
		var line struct {
			Message map[string]string `json:"message"`
		}
		if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Message["published_at"] != want || len(line.Message) != 6 {
			t.Errorf("%d is logged as %v, error %v, want %s", ms, line.Message, err, want)
		}
	}
}

// A log line about a message that shows neither what it holds nor its headers.
func ExampleEnvelope_logging() {
	e := bus.Restore(messageID, "users.registered", []byte(`{"email":"ada@example.com"}`), correlationID, "",
		map[string]string{"tenant": "acme"}, publishedAt)
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	log.Info("handled", "message", e)
	fmt.Println(e)

	// Output:
	// level=INFO msg=handled message.message_id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 message.message_type=users.registered message.payload="<27 bytes>" message.correlation_id=0199a1c2-0000-7000-8000-00000000002a message.headers="<1 headers>" message.published_at=2025-01-21T22:53:20.123Z
	// bus message_id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 message_type=users.registered payload=<27 bytes> correlation_id=0199a1c2-0000-7000-8000-00000000002a headers=<1 headers> published_at=2025-01-21T22:53:20.123Z
}
