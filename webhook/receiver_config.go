package webhook

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// The bounds of a ReceiverConfig that has none.
const (
	DefaultMaxConcurrent    = 1024
	DefaultMaxBytesInFlight = 64 << 20
	DefaultBodyTimeout      = 10 * time.Second
	DefaultPublishTimeout   = 30 * time.Second
	DefaultRetryAfter       = 5 * time.Second
)

// A ReceiverConfig says what a [Receiver] accepts and where it goes. Publisher is required,
// and either Topic and Request or Route.
type ReceiverConfig struct {
	// Publisher gets the envelopes as open messages. It belongs to the caller, who closes
	// it once the server has been shut down.
	Publisher message.Publisher
	// Topic is where they go.
	Topic string
	// Request says how requests become envelopes.
	Request RequestOptions
	// Route chooses topic and options of each request instead, by its path or host. It sees
	// the headers before DropHeaders and HashHeaders and must not read the body. An error
	// is answered with [StatusCode]: &Error{Code: CodeNotFound} for a source that does not
	// exist, one marked by envelope.Transient for a table that cannot be reached.
	Route func(*http.Request) (topic string, o RequestOptions, err error)

	// MaxConcurrent is how many requests are handled at once, from their headers to the
	// end of Publish; 0 is [DefaultMaxConcurrent]. The next one is answered 503 at once.
	MaxConcurrent int
	// MaxBytesInFlight is how many bytes of bodies are in memory at once; 0 is
	// [DefaultMaxBytesInFlight], or more where one body needs it. It is at least twice
	// RequestOptions.MaxBodyBytes, and two bytes: a body is moved while it grows. What does
	// not fit is answered 503 at once. What a marshaler makes of a body is not counted.
	MaxBytesInFlight int64
	// BodyTimeout is how long a body may take to arrive; 0 is [DefaultBodyTimeout]. It
	// takes the place of the http.Server's ReadTimeout from the headers on.
	BodyTimeout time.Duration
	// PublishTimeout is how long Publish may take before the request is answered 503; 0 is
	// [DefaultPublishTimeout]. It is also the deadline of the message's context.
	PublishTimeout time.Duration
	// RetryAfter is the Retry-After of a 503, rounded up to seconds; 0 is
	// [DefaultRetryAfter].
	RetryAfter time.Duration

	// Logger gets one line for each request that is not accepted, never with a body, a
	// header value or a secret; nil is none.
	Logger *slog.Logger
}

// Validate reports everything that is wrong with c.
func (c ReceiverConfig) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("webhook: ReceiverConfig."+format, args...))
	}
	if c.Publisher == nil {
		bad("Publisher is nil")
	}
	if c.Route == nil {
		if c.Topic == "" {
			bad("Topic is empty")
		}
		if err := c.Request.Validate(); err != nil {
			errs = append(errs, err)
		}
		if c.MaxBytesInFlight > 0 && c.MaxBytesInFlight < inFlight(&c.Request) {
			bad("MaxBytesInFlight %d is less than twice MaxBodyBytes %d", c.MaxBytesInFlight, c.Request.maxBody())
		}
	} else if c.Topic != "" || c.Request.Source != "" {
		bad("Route is set beside Topic or Request")
	}
	for _, f := range [...]struct {
		name  string
		value int64
	}{
		{"MaxConcurrent", int64(c.MaxConcurrent)},
		{"MaxBytesInFlight", c.MaxBytesInFlight},
		{"BodyTimeout", int64(c.BodyTimeout)},
		{"PublishTimeout", int64(c.PublishTimeout)},
		{"RetryAfter", int64(c.RetryAfter)},
	} {
		if f.value < 0 {
			bad("%s is negative", f.name)
		}
	}
	return errors.Join(errs...)
}

// inFlight returns the bytes that one body may need.
func inFlight(o *RequestOptions) int64 { return 2*min(o.maxBody(), math.MaxInt64/2-1) + 2 }
