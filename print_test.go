package envelope_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
)

// secretive has a secret wherever a provider or a user can put one.
var secretive = envelope.Envelope{
	ID: hookID, SourceID: "stripe", TenantID: "acme", ReceivedAt: time.UnixMilli(1737500000123), ContentType: "text/plain; a=b",
	Headers: []envelope.Header{{Name: "x-secret-name", Value: "secret"}, {Name: "x", Value: "secret"}},
	Body:    []byte("secret"), Size: 6, DedupeKey: "evt 1", ReplayID: "r-1", IdempotencyKey: "acme:stripe:evt 1",
	Verification: envelope.Verification{Status: envelope.VerificationOK, Flagged: true},
	Traceparent:  parent, Tracestate: "a=1", Instance: "blue", Region: "eu", OrderingKey: "lane",
	Claim:    "urn:ankusa:claim:v2:acme:01M39VMD8RA3C5HR4RBV67Y002:1737500000:secretsecretsecretsecretsecretsecretsecret0",
	SHA256:   helloSum,
	Metadata: md{"secret": "secret"}, Unknown: []byte(`{"secret":1}`),
}

const (
	secretiveLine = `envelope id=` + hookID + ` source_id=stripe tenant_id=acme received_at=2025-01-21T22:53:20.123Z ` +
		`content_type="text/plain; a=b" size=6 dedupe_key="evt 1" replay_id=r-1 idempotency_key="acme:stripe:evt 1" ` +
		`verification=ok verification_flagged=true headers=<2 headers> traceparent=` + parent + ` tracestate="a=1" instance=blue ` +
		`region=eu ordering_key=lane metadata=<1 entries> unknown=<12 bytes> sha256=` + helloSum + ` ` +
		`claim=urn:ankusa:claim:v2:acme:01M39VMD8RA3C5HR4RBV67Y002:1737500000:<signature> body=<6 bytes>`
	secretiveGo = `envelope.Envelope{ID:"` + hookID + `", SourceID:"stripe", TenantID:"acme", ReceivedAt:"2025-01-21T22:53:20.123Z", ` +
		`ContentType:"text/plain; a=b", Size:6, DedupeKey:"evt 1", ReplayID:"r-1", IdempotencyKey:"acme:stripe:evt 1", ` +
		`Verification.Status:"ok", Verification.Flagged:true, Headers:<2 headers>, Traceparent:"` + parent + `", Tracestate:"a=1", ` +
		`Instance:"blue", Region:"eu", OrderingKey:"lane", Metadata:<1 entries>, Unknown:<12 bytes>, SHA256:"` + helloSum + `", ` +
		`Claim:"urn:ankusa:claim:v2:acme:01M39VMD8RA3C5HR4RBV67Y002:1737500000:<signature>", Body:<6 bytes>}`
)

func TestPrint(t *testing.T) {
	for _, tt := range []struct{ format, want string }{
		{"%v", secretiveLine},
		{"%+v", secretiveLine},
		{"%s", secretiveLine},
		{"%d", secretiveLine},
		{"%x", secretiveLine},
		{"%t", secretiveLine},
		{"%c", secretiveLine},
		{"% X", secretiveLine},
		{"%#v", secretiveGo},
		{"%q", fmt.Sprintf("%q", secretiveLine)},
		{"%.8s", "envelope"},
	} {
		if got := fmt.Sprintf(tt.format, secretive); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.format, got, tt.want)
		}
		if got := fmt.Sprintf(tt.format, &secretive); got != tt.want {
			t.Errorf("%s of a pointer:\n%s\nwant\n%s", tt.format, got, tt.want)
		}
	}
	if got := secretive.String(); got != secretiveLine {
		t.Error(got)
	}
	if got := secretive.GoString(); got != secretiveGo {
		t.Error(got)
	}
	if got := fmt.Sprint((*envelope.Envelope)(nil)); got != "<nil>" {
		t.Errorf("a nil pointer is %q", got)
	}
	for in, want := range map[*envelope.Envelope]string{
		{}:                         `envelope id="" source_id="" headers=<0 headers> body=<0 bytes>`,
		{ID: "i", Claim: "odd"}:    `envelope id=i source_id="" headers=<0 headers> claim=<claim> body=<0 bytes>`,
		{ID: "i", Claim: "a:b"}:    `envelope id=i source_id="" headers=<0 headers> claim=a:<signature> body=<0 bytes>`,
		{ID: "i\n", SourceID: ""}:  `envelope id="i\n" source_id="" headers=<0 headers> body=<0 bytes>`,
		{ID: "i", Claim: claimRef}: `envelope id=i source_id="" headers=<0 headers> claim=` + claimRef + ` body=<0 bytes>`,
	} {
		if got := in.String(); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}

// Wherever an Envelope is inside what is printed, its secrets are not.
func TestPrintNested(t *testing.T) {
	type outer struct {
		Hook  envelope.Envelope
		Hooks []envelope.Envelope
		Ptr   *envelope.Envelope
		Map   map[string]envelope.Envelope
		Any   any
	}
	o := outer{secretive, []envelope.Envelope{secretive}, &secretive, map[string]envelope.Envelope{"k": secretive}, secretive}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "hook", secretive, "ptr", &secretive, "outer", o)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "hook", secretive, "ptr", &secretive)
	texts := []string{fmt.Sprint(o), fmt.Errorf("failed: %v", secretive).Error(), log.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		texts = append(texts, fmt.Sprintf(verb, o))
	}
	for _, text := range texts {
		for _, secret := range []string{"secret", fmt.Sprintf("%x", "secret"), "115 101 99"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in\n%s", secret, text)
			}
		}
		if !strings.Contains(text, "6 bytes>") {
			t.Errorf("no hook in\n%s", text)
		}
	}
}

// A pointer that is printed on its own reaches the text through a method; the wire form does not.
func TestMarshalJSONIsTheWireForm(t *testing.T) {
	e := envelope.Envelope{ID: "i", Body: []byte("hello"), ReceivedAt: time.UnixMilli(1)}
	got, err := json.Marshal(e)
	if want := bareStart + `"headers":{},` + bareTrace + bareEnd; err != nil || string(got) != want {
		t.Errorf("%s, error %v, want %s", got, err, want)
	}
}

func TestLogValue(t *testing.T) {
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "hook", secretive)
	var line struct{ Hook map[string]any }
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"id": hookID, "received_at": "2025-01-21T22:53:20.123Z", "size": 6.0, "verification_flagged": true, "headers": "<2 headers>",
		"body": "<6 bytes>", "metadata": "<1 entries>", "unknown": "<12 bytes>", "dedupe_key": "evt 1",
	} {
		if line.Hook[name] != want {
			t.Errorf("%s is %v, want %v", name, line.Hook[name], want)
		}
	}
	if len(line.Hook) != 22 {
		t.Errorf("%d attributes: %v", len(line.Hook), line.Hook)
	}
}

// A producer can write any time of 64 bits.
func TestLogValueOfAnyTime(t *testing.T) {
	for ms, want := range map[int64]string{
		-62167219200001: "-0001-12-31T23:59:59.999Z",
		-62167219200000: "0000-01-01T00:00:00Z",
		253402300799999: "9999-12-31T23:59:59.999Z",
		253402300800000: "10000-01-01T00:00:00.000Z",
		math.MaxInt64:   "292278994-08-17T07:12:55.807Z",
		math.MinInt64:   "-292275055-05-16T16:47:04.192Z",
	} {
		var out bytes.Buffer
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "hook", envelope.Envelope{ReceivedAt: time.UnixMilli(ms)})
		var line struct {
			Hook struct {
				ReceivedAt string `json:"received_at"`
			}
		}
		if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Hook.ReceivedAt != want {
			t.Errorf("%d is logged as %q, error %v, want %q", ms, line.Hook.ReceivedAt, err, want)
		}
	}
}

// A log line about a hook that shows neither its body nor what the provider sent with it.
func Example_logging() {
	e := envelope.Envelope{
		ID: "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10", SourceID: "stripe", TenantID: "acme",
		Headers: []envelope.Header{{Name: "stripe-signature", Value: "t=1,v1=5257a8"}},
		Body:    []byte(`{"card":"4242 4242 4242 4242"}`),
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	log.Info("hook received", "hook", e)
	fmt.Println(e)
	// Not this, which is the wire form and has the body in it: json.Marshal(e).

	// Output:
	// level=INFO msg="hook received" hook.id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 hook.source_id=stripe hook.tenant_id=acme hook.headers="<1 headers>" hook.body="<30 bytes>"
	// envelope id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 source_id=stripe tenant_id=acme headers=<1 headers> body=<30 bytes>
}
