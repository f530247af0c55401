package webhook_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/webhook"
)

const helloSHA256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

func TestParseDeliveryHeaders(t *testing.T) {
	tests := []struct {
		name string
		h    http.Header
		want webhook.Delivery
		ok   bool
	}{
		{
			name: "all of them",
			h: header("x-ankusa-id: id-1", "x-ankusa-idempotency-key: acme:stripe:evt_1", "x-ankusa-source: stripe", "content-type: text/plain; charset=UTF-8",
				"x-ankusa-tenant: acme", "x-ankusa-dedupe-key: evt_1", "x-ankusa-replay-id: r-1", "x-ankusa-received-at: 1737500000123",
				"x-ankusa-body-sha256: "+helloSHA256, "x-ankusa-verification: ok", "x-ankusa-verification-flagged: true"),
			want: webhook.Delivery{
				ID: "id-1", IdempotencyKey: "acme:stripe:evt_1", SourceID: "stripe", ContentType: "text/plain; charset=UTF-8",
				TenantID: "acme", DedupeKey: "evt_1", ReplayID: "r-1", ReceivedAt: time.UnixMilli(1737500000123).UTC(),
				SHA256: helloSHA256, Verification: envelope.Verification{Status: "ok", Flagged: true},
			},
			ok: true,
		},
		{name: "an id alone", h: header("x-ankusa-id: id-1"), want: webhook.Delivery{ID: "id-1"}, ok: true},
		{name: "no id", h: header("x-ankusa-source: s")},
		{name: "an empty id", h: http.Header{"X-Ankusa-Id": {""}}},
		{name: "an id that is not ASCII", h: header("x-ankusa-id: caf\xc3\xa9")},
		{name: "names in lower case", h: http.Header{"x-ankusa-id": {"a"}, "x-ankusa-source": {"s"}}, want: webhook.Delivery{ID: "a", SourceID: "s"}, ok: true},
		{name: "the canonical name goes first", h: http.Header{"x-ankusa-id": {"a"}, "X-Ankusa-Id": {"b"}}, want: webhook.Delivery{ID: "b"}, ok: true},
		{name: "of the others the one that sorts first", h: http.Header{"x-ankusa-id": {"a"}, "X-ANKUSA-ID": {"b"}, "x-Ankusa-id": {"c"}}, want: webhook.Delivery{ID: "b"}, ok: true},
		{name: "a name without values is not there", h: http.Header{"X-Ankusa-Id": {}, "x-ankusa-id": {"a"}}, want: webhook.Delivery{ID: "a"}, ok: true},
		{name: "of a repeated header the first", h: header("x-ankusa-id: a", "x-ankusa-id: b"), want: webhook.Delivery{ID: "a"}, ok: true},
		{name: "also when it is empty", h: http.Header{"X-Ankusa-Id": {"", "b"}}},
		{
			name: "empty is none",
			h:    http.Header{"X-Ankusa-Id": {"a"}, "X-Ankusa-Dedupe-Key": {""}, "X-Ankusa-Replay-Id": {""}, "X-Ankusa-Idempotency-Key": {""}, "X-Ankusa-Verification": {""}, "X-Ankusa-Verification-Flagged": {"true"}},
			want: webhook.Delivery{ID: "a"}, ok: true,
		},
		{name: "flagged means nothing without a verification", h: header("x-ankusa-id: a", "x-ankusa-verification-flagged: true"), want: webhook.Delivery{ID: "a"}, ok: true},
		{name: "a status that is not known", h: header("x-ankusa-id: a", "x-ankusa-verification: Later"), want: webhook.Delivery{ID: "a", Verification: envelope.Verification{Status: "Later"}}, ok: true},
		{name: "flagged is exactly true", h: header("x-ankusa-id: a", "x-ankusa-verification: ok", "x-ankusa-verification-flagged: True"), want: webhook.Delivery{ID: "a", Verification: envelope.Verification{Status: "ok"}}, ok: true},
		{name: "the epoch", h: header("x-ankusa-id: a", "x-ankusa-received-at: 0"), want: webhook.Delivery{ID: "a", ReceivedAt: time.UnixMilli(0).UTC()}, ok: true},
		{name: "15 digits", h: header("x-ankusa-id: a", "x-ankusa-received-at: 999999999999999"), want: webhook.Delivery{ID: "a", ReceivedAt: time.UnixMilli(999999999999999).UTC()}, ok: true},
		{name: "16 digits", h: header("x-ankusa-id: a", "x-ankusa-received-at: 0999999999999999"), want: webhook.Delivery{ID: "a"}, ok: true},
		{name: "a time with a sign", h: header("x-ankusa-id: a", "x-ankusa-received-at: -1"), want: webhook.Delivery{ID: "a"}, ok: true},
		{name: "a time with a fraction", h: header("x-ankusa-id: a", "x-ankusa-received-at: 1.5"), want: webhook.Delivery{ID: "a"}, ok: true},
		{name: "a digest in upper case", h: header("x-ankusa-id: a", "x-ankusa-body-sha256: "+strings.ToUpper(helloSHA256)), want: webhook.Delivery{ID: "a"}, ok: true},
		{name: "a digest that is too short", h: header("x-ankusa-id: a", "x-ankusa-body-sha256: "+helloSHA256[1:]), want: webhook.Delivery{ID: "a"}, ok: true},
		{name: "a tenant that is not ASCII is none", h: header("x-ankusa-id: a", "x-ankusa-tenant: \xff"), want: webhook.Delivery{ID: "a"}, ok: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := webhook.ParseDeliveryHeaders(tt.h)
			if !tt.ok {
				checkError(t, err, webhook.CodeMissingID, "x-ankusa-id")
				if webhook.StatusCode(err) != 400 {
					t.Errorf("status %d, want 400", webhook.StatusCode(err))
				}
			} else if err != nil {
				t.Error(err)
			}
			if got != tt.want {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestFromDelivery(t *testing.T) {
	const signature = "webhook-signature: v1," + standardSum
	signed := []string{"webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp: 1614265330", signature}
	verify := at(standardTime, webhook.StandardWebhooks(standardSecret))
	unsigned := webhook.DeliveryOptions{AllowUnsigned: true}
	// want is the envelope of a delivery with x-ankusa-id "a" and nothing else.
	want := func(body string, changes ...func(*envelope.Envelope)) *envelope.Envelope {
		e := and(envelope.Envelope{ID: "a", Body: []byte(body), Size: int64(len(body))}, changes...)
		return &e
	}
	tests := []struct {
		name   string
		raw    string
		o      webhook.DeliveryOptions
		want   *envelope.Envelope
		code   webhook.Code
		status int
	}{
		{
			name: "all of it, signed",
			raw: raw(standardBody, append(signed, "x-ankusa-id: id-1", "x-ankusa-idempotency-key: acme:stripe:evt_1", "x-ankusa-source: stripe",
				"content-type: application/json", "x-ankusa-tenant: acme", "x-ankusa-dedupe-key: "+strings.Repeat("k", 201), "x-ankusa-replay-id: r-1",
				"x-ankusa-received-at: 1737500000123", "x-ankusa-verification: failed", "x-ankusa-verification-flagged: true",
				"Stripe-Signature: t=1", "Authorization: Bearer x")...),
			o: webhook.DeliveryOptions{Verify: verify},
			want: &envelope.Envelope{
				ID: "id-1", IdempotencyKey: "acme:stripe:evt_1", SourceID: "stripe", ContentType: "application/json", TenantID: "acme",
				DedupeKey: strings.Repeat("k", 201), // only shortened where hooks come in
				ReplayID:  "r-1", ReceivedAt: time.UnixMilli(1737500000123).UTC(),
				Verification: envelope.Verification{Status: "failed", Flagged: true},
				Headers:      pairs("stripe-signature: t=1"),
				Body:         []byte(standardBody), Size: int64(len(standardBody)),
			},
		},
		{name: "an id alone, an empty body", raw: raw("", "x-ankusa-id: a"), o: unsigned, want: want("")},
		{
			name: "a digest that is right",
			raw:  raw("hello", "x-ankusa-id: a", "x-ankusa-body-sha256: "+helloSHA256), o: unsigned,
			want: want("hello", func(e *envelope.Envelope) { e.SHA256 = helloSHA256 }),
		},
		{name: "a digest of another body", raw: raw("hullo", "x-ankusa-id: a", "x-ankusa-body-sha256: "+helloSHA256), o: unsigned, code: webhook.CodeIntegrity, status: 400},
		{name: "a digest that is none", raw: raw("hullo", "x-ankusa-id: a", "x-ankusa-body-sha256: x"), o: unsigned, want: want("hullo")},
		{
			name: "the signature of an unsigned delivery may be the provider's",
			raw:  raw("", append(signed, "x-ankusa-id: a")...), o: unsigned,
			want: want("", headers("webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek", signature, "webhook-timestamp: 1614265330")),
		},
		{
			name: "the rules of forwarding, additions too",
			raw:  raw(standardBody, append(signed, "x-ankusa-id: a", "x-a: 1", "x-b: 2")...),
			o:    webhook.DeliveryOptions{Verify: verify, Forward: envelope.ForwardOptions{Never: []string{"X-A"}}},
			want: want(standardBody, headers("x-b: 2")),
		},
		{
			name: "trace context by option",
			raw:  raw("", "x-ankusa-id: a", "traceparent: "+traceparent, "tracestate: a=1"),
			o:    webhook.DeliveryOptions{AllowUnsigned: true, TraceContext: true, Forward: envelope.ForwardOptions{Mode: envelope.ForwardNone}},
			want: want("", func(e *envelope.Envelope) { e.Traceparent, e.Tracestate = traceparent, "a=1" }),
		},
		{name: "one of ours that is not ASCII is none", raw: raw("", "x-ankusa-id: a", "x-ankusa-tenant: caf\xc3\xa9"), o: unsigned, want: want("")},
		{name: "one that is forwarded is refused", raw: raw("", "x-ankusa-id: a", "x-a: caf\xc3\xa9"), o: unsigned, code: webhook.CodeInvalidHeader, status: 400},

		{name: "closed by default", raw: raw("", "x-ankusa-id: a"), code: webhook.CodeInvalidSecret, status: 401},
		{name: "closed to signed ones too", raw: raw(standardBody, append(signed, "x-ankusa-id: a")...), code: webhook.CodeInvalidSecret, status: 401},
		{name: "no secret", raw: raw("", "x-ankusa-id: a"), o: webhook.DeliveryOptions{Verify: webhook.StandardWebhooks()}, code: webhook.CodeInvalidSecret, status: 401},
		{
			name: "permission does not make a bad secret good",
			raw:  raw("", "x-ankusa-id: a"), o: webhook.DeliveryOptions{Verify: webhook.StandardWebhooks("whsec_"), AllowUnsigned: true},
			code: webhook.CodeInvalidSecret, status: 401,
		},
		{
			name: "permission does not weaken a good one",
			raw:  raw(standardBody, "x-ankusa-id: a"), o: webhook.DeliveryOptions{Verify: verify, AllowUnsigned: true},
			code: webhook.CodeMissingHeader, status: 401,
		},
		{name: "no secret goes before a large body", raw: raw("large"), o: webhook.DeliveryOptions{MaxBodyBytes: 1}, code: webhook.CodeInvalidSecret, status: 401},
		{name: "a wrong signature", raw: raw("x", append(signed, "x-ankusa-id: a")...), o: webhook.DeliveryOptions{Verify: verify}, code: webhook.CodeNoMatchingSignature, status: 401},
		{name: "the signature is judged before the id", raw: raw("x", signed...), o: webhook.DeliveryOptions{Verify: verify}, code: webhook.CodeNoMatchingSignature, status: 401},
		{name: "no id", raw: raw(standardBody, signed...), o: webhook.DeliveryOptions{Verify: verify}, code: webhook.CodeMissingID, status: 400},
		{name: "the id is judged before the digest", raw: raw("hullo", "x-ankusa-body-sha256: "+helloSHA256), o: unsigned, code: webhook.CodeMissingID, status: 400},
		{name: "an outage", raw: raw(""), o: webhook.DeliveryOptions{Verify: verdict{errOutage}}, code: webhook.CodeUnavailable, status: 503},
		{name: "a verifier's own error", raw: raw(""), o: webhook.DeliveryOptions{Verify: verdict{errVerdict}}, code: webhook.CodeVerificationFailed, status: 401},
		{name: "a body as large as the cap", raw: raw("12345", "x-ankusa-id: a"), o: webhook.DeliveryOptions{AllowUnsigned: true, MaxBodyBytes: 5}, want: want("12345")},
		{name: "one byte more", raw: raw("123456", "x-ankusa-id: a"), o: webhook.DeliveryOptions{AllowUnsigned: true, MaxBodyBytes: 5}, code: webhook.CodeBodyTooLarge, status: 413},
		{name: "a body that ends early", raw: chunked("5\r\nabc", "x-ankusa-id: a"), o: unsigned, code: webhook.CodeIncompleteBody, status: 400},
		{name: "options that cannot work", raw: raw(""), o: webhook.DeliveryOptions{AllowUnsigned: true, MaxBodyBytes: -1}, code: webhook.CodeInvalidOptions, status: 500},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := webhook.FromDelivery(parse(t, tt.raw), tt.o)
			if codeOf(err) != tt.code {
				t.Fatalf("got error %v, want code %q", err, tt.code)
			}
			if err != nil && webhook.StatusCode(err) != tt.status {
				t.Errorf("status %d, want %d", webhook.StatusCode(err), tt.status)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %s\nwant %s", dump(got), dump(tt.want))
			}
			if got != nil {
				if _, err := got.AppendWire(nil); err != nil {
					t.Errorf("it cannot be written: %v", err)
				}
			}
		})
	}
}

func TestDeliveryDoesNotKeepOptions(t *testing.T) {
	never := make([]string, 1, 9)
	never[0] = "x-a"
	o := webhook.DeliveryOptions{Verify: verdict{}, Forward: envelope.ForwardOptions{Never: never}}
	if _, err := webhook.FromDelivery(parse(t, raw("", "x-ankusa-id: a")), o); err != nil {
		t.Fatal(err)
	}
	if spare := never[:2][1]; spare != "" {
		t.Errorf("the caller's slice has %q behind its end: goroutines that share it race", spare)
	}
}

func TestDeliveryOptionsValidate(t *testing.T) {
	for _, o := range []webhook.DeliveryOptions{{AllowUnsigned: true}, {Verify: webhook.StandardWebhooks("a")}} {
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
	}
	err := fmt.Sprint(
		(webhook.DeliveryOptions{}).Validate(),
		(webhook.DeliveryOptions{Verify: webhook.StandardWebhooks(), MaxBodyBytes: -1, Forward: envelope.ForwardOptions{Mode: 9}}).Validate())
	for _, want := range []string{"neither Verify nor AllowUnsigned", "no secret", "MaxBodyBytes -1", "unknown ForwardMode 9"} {
		if !strings.Contains(err, want) {
			t.Errorf("%s: want all mistakes, %q among them", err, want)
		}
	}
}

func ExampleFromDelivery() {
	verify := webhook.StandardWebhooks("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	verify.Now = func() time.Time { return time.Unix(1614265330, 0) } // the clock is for the example

	r, _ := http.NewRequest(http.MethodPost, "/hooks", strings.NewReader(`{"test": 2432232314}`))
	r.Header.Set("x-ankusa-id", "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10")
	r.Header.Set("x-ankusa-source", "stripe")
	r.Header.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	r.Header.Set("webhook-timestamp", "1614265330")
	r.Header.Set("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")

	e, err := webhook.FromDelivery(r, webhook.DeliveryOptions{Verify: verify})
	if err != nil {
		fmt.Println(webhook.StatusCode(err), err)
		return
	}
	fmt.Println(e.ID, e.SourceID, string(e.Body))

	// Without a secret nothing is believed.
	_, err = webhook.FromDelivery(r, webhook.DeliveryOptions{})
	var refused *webhook.Error
	fmt.Println(errors.As(err, &refused), refused.Code, webhook.StatusCode(err))
	// Output:
	// 0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 stripe {"test": 2432232314}
	// true invalid_secret 401
}
