package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/watermill-envelope/envelope"
)

// DefaultMaxBodyBytes is the cap of request bodies when the options have none: 8 MiB.
const DefaultMaxBodyBytes = 8 << 20

// OnFailure says what becomes of a request that a Verifier refused.
type OnFailure int

// What can become of it.
const (
	Reject OnFailure = iota // the verifier's error is returned, and there is no envelope
	Flag                    // the envelope says "failed" and is flagged
)

// RequestOptions say how a provider's request becomes an envelope. Only Source is required.
// They may be shared by goroutines as long as none of them writes to them.
type RequestOptions struct {
	// Source is the SourceID.
	Source string
	// Tenant is the TenantID; empty is none. A tenant whose bodies may go to a claim check
	// must match [A-Za-z0-9_-]{1,64}.
	Tenant string
	// Instance and Region name where the hook is published; empty is none. A marshaler's
	// defaults do not apply to a message that is an envelope already.
	Instance, Region string

	// MaxBodyBytes is the cap of the body, inclusive; 0 is [DefaultMaxBodyBytes].
	MaxBodyBytes int64

	// Verify judges the request; nil judges nothing, and the envelope says "skipped". What
	// it does not refuse is "ok".
	Verify Verifier
	// OnFailure is what follows when Verify refuses a request. It does not apply to
	// transient errors of Verify nor to [CodeInvalidSecret]: these say nothing about the
	// request and are always returned.
	OnFailure OnFailure

	// DropHeaders are removed, and HashHeaders have each value replaced by "sha256:" and
	// its digest in hex, before anything but Verify and [ReceiverConfig.Route] sees the
	// request. Names are in any letter case. One that is in both is removed.
	DropHeaders, HashHeaders []string
	// Forward are the rules of forwarding; see [envelope.ForwardHeaders].
	Forward envelope.ForwardOptions
	// HeadersDropped, when not nil, is called for each reason, "count" or "bytes", that a
	// cap of Forward dropped n > 0 headers of a request for.
	HeadersDropped func(reason string, n int)

	// DedupeHeader is the header that has the provider's event key, in any letter case.
	DedupeHeader string
	// DedupeFunc finds the key where it is not in a header; "" is none. It must not change
	// its arguments. At most one of DedupeHeader and DedupeFunc is set. Keys over 200 bytes
	// are digested; see [envelope.DigestLongDedupeKey].
	DedupeFunc func(h http.Header, body []byte) (string, error)

	// TraceContext takes traceparent and tracestate from the headers of those names. Leave
	// it off where anyone can send requests and traces are not to be joined by strangers.
	TraceContext bool
}

// Validate reports everything that is wrong with o.
func (o RequestOptions) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("webhook: RequestOptions."+format, args...))
	}
	if o.Source == "" {
		bad("Source is empty")
	}
	for _, f := range [...]struct{ name, value string }{
		{"Source", o.Source}, {"Tenant", o.Tenant}, {"Instance", o.Instance}, {"Region", o.Region},
	} {
		if !utf8.ValidString(f.value) {
			bad("%s is not UTF-8", f.name)
		}
	}
	if o.MaxBodyBytes < 0 {
		bad("MaxBodyBytes %d is negative", o.MaxBodyBytes)
	}
	if o.OnFailure != Reject && o.OnFailure != Flag {
		bad("OnFailure %d is unknown", o.OnFailure)
	}
	if o.OnFailure == Flag && o.Verify == nil {
		bad("OnFailure is Flag, but nothing is verified")
	}
	if o.DedupeHeader != "" && o.DedupeFunc != nil {
		bad("DedupeHeader and DedupeFunc are both set")
	}
	if o.DedupeHeader != "" && slices.ContainsFunc(o.DropHeaders, func(n string) bool { return strings.EqualFold(n, o.DedupeHeader) }) {
		bad("DedupeHeader %q is one of DropHeaders", o.DedupeHeader)
	}
	if v, ok := o.Verify.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	if err := o.Forward.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (o *RequestOptions) maxBody() int64 {
	if o.MaxBodyBytes == 0 {
		return DefaultMaxBodyBytes
	}
	return o.MaxBodyBytes
}

// FromRequest reads a request as a webhook provider sends it and returns it as a new
// envelope: with an ID of its own, received now, the body to the byte.
//
// Errors are an [*Error] or, for a body over the cap, a [*BodyTooLargeError]; a transient
// error of Verify, and any of DedupeFunc, is returned as it is. [StatusCode] has the status
// of each.
//
// The memory that a body takes follows what has arrived, not what its Content-Length says.
// FromRequest waits for the body as long as r.Body.Read does, and neither restores nor
// closes it.
//
// net/http keeps no order of headers of different names, so theirs is that of the names,
// in lower case and sorted; values of one name keep the order that they came in. A request
// that has a header with bytes outside printable ASCII is refused, unless the header is one
// that DropHeaders or HashHeaders take away.
//
// An invalid traceparent is as good as none.
func FromRequest(r *http.Request, o RequestOptions) (*envelope.Envelope, error) {
	return fromRequest(r, &o, nil)
}

func fromRequest(r *http.Request, o *RequestOptions, mem *reservation) (*envelope.Envelope, error) {
	if err := o.Validate(); err != nil {
		return nil, &Error{Code: CodeInvalidOptions, Err: err}
	}
	header := redact(r.Header, o)
	list := headerList(header)
	if err := validHeaders(list); err != nil {
		return nil, err
	}
	body, err := readBody(r, o.maxBody(), mem)
	if err != nil {
		return nil, err
	}
	verification, err := o.verify(r.Header, body)
	if err != nil {
		return nil, err
	}
	dedupe, err := o.dedupeKey(header, body)
	if err != nil {
		return nil, err
	}
	e := &envelope.Envelope{
		ID:           envelope.NewID(),
		SourceID:     o.Source,
		TenantID:     o.Tenant,
		ReceivedAt:   time.UnixMilli(time.Now().UnixMilli()).UTC(),
		ContentType:  get(header, "Content-Type"),
		Headers:      forward(list, o.Forward, o.HeadersDropped),
		Body:         body,
		Size:         int64(len(body)),
		DedupeKey:    dedupe,
		Verification: verification,
		Instance:     o.Instance,
		Region:       o.Region,
	}
	if o.TraceContext {
		e.Traceparent, e.Tracestate = traceContext(header)
	}
	return e, nil
}

// verify returns what the envelope is to say, or the error that refuses the request.
func (o *RequestOptions) verify(h http.Header, body []byte) (envelope.Verification, error) {
	if o.Verify == nil {
		return envelope.Verification{Status: envelope.VerificationSkipped}, nil
	}
	err := judge(o.Verify, h, body)
	switch {
	case err == nil:
		return envelope.Verification{Status: envelope.VerificationOK}, nil
	case o.OnFailure == Flag && !envelope.IsTransient(err) && codeOf(err) != CodeInvalidSecret:
		return envelope.Verification{Status: envelope.VerificationFailed, Flagged: true}, nil
	}
	return envelope.Verification{}, err
}

func (o *RequestOptions) dedupeKey(h http.Header, body []byte) (string, error) {
	key := ""
	switch {
	case o.DedupeHeader != "":
		key = get(h, o.DedupeHeader)
	case o.DedupeFunc != nil:
		var err error
		if key, err = o.DedupeFunc(h, body); err != nil {
			return "", err
		}
	}
	if key = envelope.DigestLongDedupeKey(key); !utf8.ValidString(key) {
		return "", &Error{Code: CodeRefused, Field: "dedupe_key", Err: errors.New("not UTF-8")}
	}
	return key, nil
}
