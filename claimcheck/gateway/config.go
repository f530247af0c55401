package gateway

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// The bounds of a Config that has none.
const (
	DefaultMaxInFlight  = 256
	DefaultStallTimeout = 10 * time.Second
)

// A Config says what a [Gateway] serves, and to whom. Store is required.
type Config struct {
	// Store has the packs. A Gateway only calls Get, so its credentials need no more than
	// the right to read.
	Store claimcheck.Store

	// Authorize decides who may read the bodies of a tenant, which is a valid one. It
	// answers nil, [ErrUnauthorized] or [ErrForbidden]; an error that is marked transient
	// (see [envelope.Transient]) is a 503, and any other one a 403. Any number of
	// goroutines call it. The method Authorize of a [BearerTokens] is one.
	//
	// Nil lets everybody in who can reach the address: keep it on a loopback address, or
	// behind a proxy that asks.
	//
	// It is asked about requests with a signature too. One that is to let those in without
	// another credential answers nil when the query of r has a "sig", and leaves the rest
	// to VerifySignature, which is called for all of them.
	Authorize func(r *http.Request, tenant string) error

	// VerifySignature checks what a signed reference carries, and answers nil when it is
	// genuine; that it has not expired is checked after it. An error that is marked
	// transient is a 503, and any other one a 400 bad_signature. Compare in constant time
	// ([hmac.Equal]). Any number of goroutines call it.
	//
	// Nil refuses every signed request with 400 bad_signature: nobody else can check what a
	// gateway of Ankusa has signed.
	VerifySignature func(Signature) error

	// MaxInFlight is how many bodies are served at once; 0 is [DefaultMaxInFlight]. The
	// next one is answered 503 at once. Each needs less than 256 KiB of memory.
	MaxInFlight int
	// StallTimeout is how long the store may take to answer, and how long a body may then
	// stand still, whether the store or the client is at fault; 0 is
	// [DefaultStallTimeout]. A body may take any time in all.
	StallTimeout time.Duration

	// Logger gets one line for each request for a claim: the reference, the tenant, the
	// status and code, the bytes sent, how long it took, the address of the client. It
	// never gets a query, a header, a path that is not that of a claim, or anything of a
	// body. Nil is none.
	Logger *slog.Logger
}

// Validate reports everything that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("gateway: Config.Store is nil"))
	}
	if c.MaxInFlight < 0 {
		errs = append(errs, errors.New("gateway: Config.MaxInFlight is negative"))
	}
	if c.StallTimeout < 0 {
		errs = append(errs, errors.New("gateway: Config.StallTimeout is negative"))
	}
	return errors.Join(errs...)
}

// A Code says in an answer why there is no body. Codes are stable: the readers of Ankusa's
// gateways match on them.
type Code string

// The codes, with their status.
const (
	CodeInvalidTenant    Code = "invalid_tenant"        // 400
	CodeInvalidID        Code = "invalid_id"            // 400
	CodeBadSignature     Code = "bad_signature"         // 400: of a signed reference
	CodeUnauthorized     Code = "unauthorized"          // 401
	CodeForbiddenTenant  Code = "forbidden_tenant"      // 403
	CodeNotFound         Code = "not_found"             // 404: no such claim, or no such path
	CodeMethodNotAllowed Code = "method_not_allowed"    // 405
	CodeRefExpired       Code = "ref_expired"           // 410: a signed reference after its time
	CodeRange            Code = "range_not_satisfiable" // 416
	CodeInternal         Code = "internal"              // 500: a function of the Config, or the Store, panicked
	CodeOverloaded       Code = "overloaded"            // 503, Retry-After 1: MaxInFlight
	CodeUnavailable      Code = "unavailable"           // 503, Retry-After 1: Authorize or VerifySignature cannot tell
	CodeStoreUnavailable Code = "store_unavailable"     // 503, Retry-After 1
	CodeStoreForbidden   Code = "store_forbidden"       // 503, Retry-After 60: the store refuses the gateway

	// Not in an answer, but in the log, where the answer had begun: the connection was cut.
	codeCut Code = "cut"
)

// status returns the status of an answer with code.
func (code Code) status() int {
	switch code {
	case CodeInvalidTenant, CodeInvalidID, CodeBadSignature:
		return http.StatusBadRequest
	case CodeUnauthorized:
		return http.StatusUnauthorized
	case CodeForbiddenTenant:
		return http.StatusForbidden
	case CodeNotFound:
		return http.StatusNotFound
	case CodeMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case CodeRefExpired:
		return http.StatusGone
	case CodeRange:
		return http.StatusRequestedRangeNotSatisfiable
	case CodeOverloaded, CodeUnavailable, CodeStoreUnavailable, CodeStoreForbidden:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// retryAfter returns the seconds after which a request is worth another try, or "".
func (code Code) retryAfter() string {
	switch code {
	case CodeOverloaded, CodeUnavailable, CodeStoreUnavailable:
		return "1"
	case CodeStoreForbidden:
		return "60"
	}
	return ""
}
