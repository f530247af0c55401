package envelope_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
)

// golden are the messages in testdata/wire/v0.1. They are what ParseWire returns, and
// AppendWire writes them back.
var golden = map[string]envelope.Envelope{
	"minimal": {
		Body: []byte("{}"), Size: 2, SHA256: digestOf("{}"),
	},
	"inline": {
		TenantID: "acme", ContentType: "application/json", DedupeKey: "evt_1", IdempotencyKey: "acme:stripe:evt_1",
		Verification: envelope.Verification{Status: envelope.VerificationOK},
		Headers:      []envelope.Header{{Name: "x-github-event", Value: "push"}},
		Traceparent:  "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Instance:     "default", Region: "eu-west-1",
		Body: []byte("hello"), Size: 5, SHA256: helloDigest,
	},
	"claim": {
		TenantID: "acme", ContentType: "application/octet-stream",
		Verification: envelope.Verification{Status: envelope.VerificationOK},
		Claim:        ref, Size: 3145728, SHA256: digestOf(strings.Repeat("x", 3145728)),
	},
	"claim-signed": {
		TenantID: "acme",
		Claim:    "urn:ankusa:claim:v2:acme:01M39VMD8RA3C5HR4RBV67Y002:1737500000:abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNO-_",
		Size:     3145728, SHA256: digestOf(strings.Repeat("x", 3145728)),
	},
	"claim-no-tenant": {
		Claim: "urn:ankusa:claim:v1:default:01M39VMD8RA3C5HR4RBV67Y002",
		Size:  3145728, SHA256: digestOf(strings.Repeat("x", 3145728)),
	},
	"empty-body": {
		TenantID: "acme", Body: []byte{}, SHA256: digestOf(""),
	},
	"empty-source": {
		SourceID: "none", Body: []byte("hello"), Size: 5, SHA256: helloDigest,
	},
	"default-tenant-key": {
		DedupeKey: "evt_1", IdempotencyKey: "default:stripe:evt_1", Body: []byte("hello"), Size: 5, SHA256: helloDigest,
	},
	"before-1970": {
		ReceivedAt: time.UnixMilli(-1), Body: []byte("hello"), Size: 5, SHA256: helloDigest,
	},
	"binary-body": {
		ContentType: "application/octet-stream", Body: allBytes(), Size: 256, SHA256: digestOf(string(allBytes())),
	},
	"all-fields": {
		TenantID: "acme", ContentType: "application/json; charset=utf-8", DedupeKey: "evt_1",
		ReplayID: "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f11", IdempotencyKey: "chosen by the producer",
		Verification: envelope.Verification{Status: envelope.VerificationFailed, Flagged: true},
		Headers: []envelope.Header{
			{Name: "stripe-signature", Value: "t=1492774577,v1=5257a869e7ec"},
			{Name: "user-agent", Value: "Stripe/1.0 (+https://stripe.com/docs/webhooks)"},
			{Name: "accept", Value: "*/*; q=0.5, application/xml"},
			{Name: "x-empty", Value: ""},
		},
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Tracestate:  "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
		Instance:    "ankusa-1", Region: "eu-west-1", OrderingKey: "acme/stripe",
		Metadata: map[string]string{"_watermill_requeue": "1", "correlation_id": "c-1", "reason_poisoned": "boom"},
		Unknown:  []byte(`{"priority":7,"labels":["a","b"]}`),
		Body:     []byte("{\"amount\":100}\n"), Size: 15, SHA256: digestOf("{\"amount\":100}\n"),
	},
	"unknown-members": {
		Unknown: []byte(`{"V":2,"ID":"other","x":{ "a" : [1.50, -0, 1e+2, "\u00e9\/", null] },"":"","x":"again","\u0078y":true}`),
		Body:    []byte("hello"), Size: 5, SHA256: helloDigest,
	},
	"unicode": {
		SourceID: "shop-é", TenantID: "中文", ContentType: "text/plain", DedupeKey: "😀", IdempotencyKey: "中文:shop-é:😀",
		Verification: envelope.Verification{Status: "überprüft"},
		Headers:      []envelope.Header{{Name: "x-city", Value: "München"}, {Name: "x-ä", Value: "日本語"}},
		Instance:     "\u2028\u2029", Region: "\ufeff\ufffd\ufffe\uffff",
		Metadata: map[string]string{"ключ": "знач"},
		Body:     []byte("Größe: 5 µm"), Size: 14, SHA256: digestOf("Größe: 5 µm"),
	},
	"escapes": {
		ID: `"\/<>&'`, IdempotencyKey: `"\/<>&'`, ContentType: `a\"b`,
		SourceID: "\x00\x01\x02\x03\x04\x05\x06\a\b\t\n\v\f\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\u007f\u0080",
		Headers:  []envelope.Header{{Name: `x-"quoted"`, Value: "C:\\dir\\file\t\x01"}},
		Metadata: map[string]string{`a"b`: "\n"},
		Body:     []byte("hello"), Size: 5, SHA256: helloDigest,
	},
}

// allBytes is each byte value once.
func allBytes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// goldenFiles returns the texts with their envelopes, in which what most have in common is set.
func goldenFiles(t testing.TB) map[string]struct {
	text []byte
	want envelope.Envelope
} {
	t.Helper()
	const folder = "testdata/wire/v0.1"
	files, err := filepath.Glob(folder + "/*.json")
	if err != nil || len(files) != len(golden) {
		t.Fatalf("%d files in %s for %d envelopes, error %v", len(files), folder, len(golden), err)
	}
	all := make(map[string]struct {
		text []byte
		want envelope.Envelope
	})
	for name, want := range golden {
		text, err := os.ReadFile(filepath.Join(folder, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if want.ID == "" {
			want.ID = "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10"
		}
		switch want.SourceID {
		case "":
			want.SourceID = "stripe"
		case "none":
			want.SourceID = ""
		}
		if want.ReceivedAt.IsZero() {
			want.ReceivedAt = time.UnixMilli(1737500000000)
		}
		want.ReceivedAt = want.ReceivedAt.UTC()
		if want.IdempotencyKey == "" {
			want.IdempotencyKey = want.ID
		}
		if want.Verification.Status == "" {
			want.Verification.Status = envelope.VerificationSkipped
		}
		all[name] = struct {
			text []byte
			want envelope.Envelope
		}{text, want}
	}
	return all
}

func TestGolden(t *testing.T) {
	for name, g := range goldenFiles(t) {
		t.Run(name, func(t *testing.T) {
			got, err := envelope.ParseWire(g.text)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, &g.want) {
				t.Errorf("read:\ngot  %#v\nwant %#v", got, &g.want)
			}
			text, err := g.want.AppendWire([]byte("before:"))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(text, append([]byte("before:"), g.text...)) {
				t.Errorf("written:\ngot  %s\nwant before:%s", text, g.text)
			}
		})
	}
}
