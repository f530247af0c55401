package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/watermill-envelope/envelope"
)

// DefaultTolerance is how far a signed time may be from now when a verifier says nothing
// else: 5 minutes either way, inclusive.
const DefaultTolerance = 5 * time.Minute

// A Verifier judges whether a request comes from whom it says.
//
// Verify gets the headers as they were sent and the exact bytes of the body, and changes
// neither. It returns nil for a request that is genuine, and an error for one that is not:
// an [*Error] with a code, or any other error, which becomes [CodeVerificationFailed]. When
// it cannot tell, because of an outage, the error is marked by envelope.Transient; such a
// request is answered 503 and never passed on as failed. The text of an error must have no
// secret, header value or body in it. Verify is called by several goroutines at once.
//
// A Verifier may also have these methods:
//
//	// Validate reports what is wrong with the configuration, before the first request.
//	Validate() error
//	// Challenge returns the answer when a body that was verified is a handshake.
//	Challenge(body []byte) (answer string, ok bool)
//
// A [Receiver] answers a handshake with 200 and the text, and does not publish it.
type Verifier interface {
	Verify(h http.Header, body []byte) error
}

// judge returns nil, an *Error, or a transient error of v's own.
func judge(v Verifier, h http.Header, body []byte) error {
	err := v.Verify(h, body)
	if e := (*Error)(nil); err == nil || envelope.IsTransient(err) || errors.As(err, &e) {
		return err
	}
	return &Error{Code: CodeVerificationFailed, Err: err}
}

// A SignatureVerifier verifies one provider's scheme with an HMAC-SHA256 over the raw body.
// The functions of this package that are named after a provider make them; the zero value
// verifies nothing and refuses everything.
//
// It has one or, while they are rotated, several secrets, any of which is good. Signatures
// are compared in constant time. Errors are of type [*Error] and permanent. The checks, in
// order: [CodeInvalidSecret], [CodeMissingHeader] for each header, [CodeMalformedHeader],
// [CodeInvalidTimestamp], [CodeTimestampOutOfTolerance], [CodeNoMatchingSignature].
//
// Secrets do not show when a SignatureVerifier is printed.
type SignatureVerifier struct {
	// Tolerance is how far the signed time may be from now, either way and inclusive, in
	// whole seconds; 0 is [DefaultTolerance]. GitHub and Shopify sign no time, and it must
	// be 0 there: a request of theirs can be replayed for ever, and only a dedupe key that
	// consumers look at helps.
	Tolerance time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time

	scheme scheme
	keys   *keys // a pointer, so that fmt shows an address wherever it is not asked politely
}

// A scheme is how one provider signs.
type scheme struct {
	name      string
	timed     bool
	verify    func(request) error
	challenge func(body []byte) (string, bool)
}

// A request is what a scheme judges.
type request struct {
	header    http.Header
	body      []byte
	keys      [][]byte
	now       time.Time
	tolerance time.Duration
}

type keys struct {
	list [][]byte
	err  error // why they cannot be used
}

func newVerifier(s scheme, decode func([]string) ([][]byte, error), secrets []string) SignatureVerifier {
	list, err := decode(secrets)
	return SignatureVerifier{scheme: s, keys: &keys{list, err}}
}

// Validate reports secrets that cannot be used, a negative tolerance, and a tolerance where
// the scheme has no time.
func (v SignatureVerifier) Validate() error {
	if v.keys == nil {
		return &Error{Code: CodeInvalidSecret, Err: errors.New("a SignatureVerifier that no function of this package made")}
	}
	var errs []error
	if v.keys.err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", v.scheme.name, v.keys.err))
	}
	if v.Tolerance < 0 {
		errs = append(errs, fmt.Errorf("webhook: %s: negative Tolerance %v", v.scheme.name, v.Tolerance))
	}
	if v.Tolerance != 0 && !v.scheme.timed {
		errs = append(errs, fmt.Errorf("webhook: %s signs no time, but Tolerance is %v", v.scheme.name, v.Tolerance))
	}
	return errors.Join(errs...)
}

// Verify implements [Verifier].
func (v SignatureVerifier) Verify(h http.Header, body []byte) error {
	switch {
	case v.keys == nil:
		return &Error{Code: CodeInvalidSecret}
	case v.keys.err != nil:
		return v.keys.err
	}
	r := request{header: h, body: body, keys: v.keys.list, tolerance: v.Tolerance}
	if r.tolerance == 0 {
		r.tolerance = DefaultTolerance
	}
	if v.Now != nil {
		r.now = v.Now()
	} else {
		r.now = time.Now()
	}
	return v.scheme.verify(r)
}

// Challenge returns the answer to a handshake of the provider; of these, only Slack has one.
// The body must have been verified.
func (v SignatureVerifier) Challenge(body []byte) (answer string, ok bool) {
	if v.scheme.challenge == nil {
		return "", false
	}
	return v.scheme.challenge(body)
}

// String returns the scheme and the number of secrets.
func (v SignatureVerifier) String() string {
	if v.keys == nil {
		return "webhook.SignatureVerifier{}"
	}
	return fmt.Sprintf("webhook.%s(<%d secrets>)", v.scheme.name, len(v.keys.list))
}

// Format writes String for every verb.
func (v SignatureVerifier) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, v.String()) }

// LogValue is String.
func (v SignatureVerifier) LogValue() slog.Value { return slog.StringValue(v.String()) }

// rawSecrets takes secrets for the bytes of the key, as most providers do.
func rawSecrets(secrets []string) ([][]byte, error) {
	if len(secrets) == 0 {
		return nil, &Error{Code: CodeInvalidSecret, Err: errors.New("no secret")}
	}
	var list [][]byte
	for _, s := range secrets {
		if s == "" {
			return nil, &Error{Code: CodeInvalidSecret, Err: errors.New("empty secret")}
		}
		list = append(list, []byte(s))
	}
	return list, nil
}

// required returns the first value of a header. As elsewhere in this format, a value with
// bytes outside printable ASCII is none.
func (r request) required(name string) (string, error) {
	v := text(r.header, name)
	if v == "" {
		return "", &Error{Code: CodeMissingHeader, Field: name}
	}
	return v, nil
}

// checkTime checks the time that a request says it was signed at, in Unix seconds.
func (r request) checkTime(field, text string) (uint64, error) {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, &Error{Code: CodeInvalidTimestamp, Field: field}
		}
	}
	at, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, &Error{Code: CodeInvalidTimestamp, Field: field}
	}
	now := uint64(max(r.now.Unix(), 0))
	if max(now, at)-min(now, at) > uint64(r.tolerance/time.Second) {
		return 0, &Error{Code: CodeTimestampOutOfTolerance, Field: field}
	}
	return at, nil
}

// A match compares signatures with what the secrets give. It looks at all of them, so that
// the time it takes says nothing.
type match struct {
	sums [][]byte
	yes  int
}

// sign computes, for each secret, the MAC of prefix and body.
func (r request) sign(prefix ...string) *match {
	m := &match{sums: make([][]byte, len(r.keys))}
	for i, key := range r.keys {
		mac := hmac.New(sha256.New, key)
		for _, p := range prefix {
			mac.Write([]byte(p))
		}
		mac.Write(r.body)
		m.sums[i] = mac.Sum(nil)
	}
	return m
}

func (m *match) try(signature []byte) {
	for _, sum := range m.sums {
		m.yes |= subtle.ConstantTimeCompare(sum, signature)
	}
}

func (m *match) verdict(field string) error {
	if m.yes == 1 {
		return nil
	}
	return &Error{Code: CodeNoMatchingSignature, Field: field}
}
