package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/watermill-envelope/envelope"
)

// DeliveryOptions say how a delivery of Ankusa's HTTP sink is read. The zero value refuses
// every delivery: one of Verify and AllowUnsigned is required.
type DeliveryOptions struct {
	// Verify judges the delivery; Ankusa signs with [StandardWebhooks].
	Verify Verifier
	// AllowUnsigned accepts deliveries when Verify is nil: whoever reaches the address can
	// then make up any hook of any tenant, verified or not. Beside Verify it changes nothing.
	AllowUnsigned bool
	// MaxBodyBytes is the cap of the body, inclusive; 0 is [DefaultMaxBodyBytes].
	MaxBodyBytes int64
	// Forward are the rules of forwarding; see [envelope.ForwardHeaders].
	Forward envelope.ForwardOptions
	// HeadersDropped is as in [RequestOptions].
	HeadersDropped func(reason string, n int)
	// TraceContext is as in [RequestOptions].
	TraceContext bool
}

// Validate reports everything that is wrong with o.
func (o DeliveryOptions) Validate() error {
	var errs []error
	if o.Verify == nil && !o.AllowUnsigned {
		errs = append(errs, &Error{Code: CodeInvalidSecret, Err: errors.New("neither Verify nor AllowUnsigned is set")})
	}
	if v, ok := o.Verify.(interface{ Validate() error }); ok {
		errs = append(errs, v.Validate())
	}
	if o.MaxBodyBytes < 0 {
		errs = append(errs, fmt.Errorf("webhook: DeliveryOptions.MaxBodyBytes %d is negative", o.MaxBodyBytes))
	}
	return errors.Join(append(errs, o.Forward.Validate())...)
}

// FromDelivery reads what Ankusa's HTTP sink posts: the raw body, and the envelope in
// headers (see [ParseDeliveryHeaders]). The envelope has the hook's own ID and keys, and no
// ReceivedAt where the sink does not say it. Other headers of the request are forwarded as
// by [FromRequest]; those of a signature that was verified are the delivery's own and are not.
//
// The checks, in order: [CodeInvalidSecret] when Verify cannot be used, or when there is
// neither Verify nor permission to do without, the body ([*BodyTooLargeError], [CodeIncompleteBody], [CodeBodyTimeout]), what
// Verify says, [CodeMissingID], [CodeIntegrity], [CodeInvalidHeader]. Answer with
// [StatusCode], or with 2xx once the hook is stored.
//
// A signature covers webhook-id, webhook-timestamp and the body. The x-ankusa-* headers,
// tenant and verification among them, are as trustworthy as the connection.
func FromDelivery(r *http.Request, o DeliveryOptions) (*envelope.Envelope, error) {
	if err := o.Validate(); err != nil {
		code := CodeInvalidOptions
		if codeOf(err) == CodeInvalidSecret {
			code = CodeInvalidSecret
		}
		return nil, &Error{Code: code, Err: err}
	}
	most := o.MaxBodyBytes
	if most == 0 {
		most = DefaultMaxBodyBytes
	}
	body, err := readBody(r, most, nil)
	if err != nil {
		return nil, err
	}
	if o.Verify != nil {
		if err := judge(o.Verify, r.Header, body); err != nil {
			return nil, err
		}
	}
	d, err := ParseDeliveryHeaders(r.Header)
	if err != nil {
		return nil, err
	}
	if d.SHA256 != "" {
		if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != d.SHA256 {
			return nil, &Error{Code: CodeIntegrity, Field: "x-ankusa-body-sha256"}
		}
	}
	if o.Verify != nil {
		o.Forward.Never = append(slices.Clip(o.Forward.Never), webhookID, webhookTimestamp, webhookSignature)
	}
	headers := forward(headerList(r.Header), o.Forward, o.HeadersDropped)
	if err := validHeaders(headers); err != nil {
		return nil, err
	}
	e := &envelope.Envelope{
		ID:             d.ID,
		SourceID:       d.SourceID,
		TenantID:       d.TenantID,
		ReceivedAt:     d.ReceivedAt,
		ContentType:    d.ContentType,
		Headers:        headers,
		Body:           body,
		Size:           int64(len(body)),
		DedupeKey:      d.DedupeKey,
		ReplayID:       d.ReplayID,
		IdempotencyKey: d.IdempotencyKey,
		Verification:   d.Verification,
		SHA256:         d.SHA256,
	}
	if o.TraceContext {
		e.Traceparent, e.Tracestate = traceContext(r.Header)
	}
	return e, nil
}

// A Delivery is what the headers of one delivery of Ankusa's HTTP sink say. The empty
// string is none.
type Delivery struct {
	ID             string                // x-ankusa-id
	IdempotencyKey string                // x-ankusa-idempotency-key
	SourceID       string                // x-ankusa-source
	TenantID       string                // x-ankusa-tenant
	ContentType    string                // content-type
	DedupeKey      string                // x-ankusa-dedupe-key
	ReplayID       string                // x-ankusa-replay-id
	ReceivedAt     time.Time             // x-ankusa-received-at; the zero time is none
	SHA256         string                // x-ankusa-body-sha256, which the body was not compared with
	Verification   envelope.Verification // x-ankusa-verification and x-ankusa-verification-flagged
}

// ParseDeliveryHeaders reads the headers of a delivery. Names are found in any letter case,
// and of a repeated header the first counts. Only x-ankusa-id is required: the error is an
// [*Error] with [CodeMissingID]. What is not well formed is none: a time that is not 1 to 15
// digits, a digest that is not 64 lower-case hex digits, a value with bytes outside
// printable ASCII. The status of a verification is kept as it is, and flagged only by
// exactly "true".
func ParseDeliveryHeaders(h http.Header) (Delivery, error) {
	d := Delivery{
		ID:             text(h, "X-Ankusa-Id"),
		IdempotencyKey: text(h, "X-Ankusa-Idempotency-Key"),
		SourceID:       text(h, "X-Ankusa-Source"),
		TenantID:       text(h, "X-Ankusa-Tenant"),
		ContentType:    text(h, "Content-Type"),
		DedupeKey:      text(h, "X-Ankusa-Dedupe-Key"),
		ReplayID:       text(h, "X-Ankusa-Replay-Id"),
	}
	if d.ID == "" {
		return Delivery{}, &Error{Code: CodeMissingID, Field: "x-ankusa-id"}
	}
	if at := text(h, "X-Ankusa-Received-At"); len(at) <= 15 {
		if ms, err := strconv.ParseUint(at, 10, 63); err == nil {
			d.ReceivedAt = time.UnixMilli(int64(ms)).UTC()
		}
	}
	if sum := text(h, "X-Ankusa-Body-Sha256"); isSHA256(sum) {
		d.SHA256 = sum
	}
	if status := text(h, "X-Ankusa-Verification"); status != "" {
		d.Verification = envelope.Verification{
			Status:  envelope.VerificationStatus(status),
			Flagged: text(h, "X-Ankusa-Verification-Flagged") == "true",
		}
	}
	return d, nil
}

func isSHA256(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == sha256.Size*2
}
