package rabbitmq

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A URI is the address of a broker: amqp://user:password@host:port/vhost, or amqps. Query
// parameters are those of https://www.rabbitmq.com/docs/uri-query-parameters as amqp091-go
// reads them (heartbeat, cacertfile, ...), but for connection_timeout: an attempt to connect
// has ten seconds.
//
// However it is printed, logged or marshaled as text or JSON, a URI shows no user, no
// password and no parameter: it is its [URI.Redacted] form. string(u) is the whole.
type URI string

const redactedURI = "<redacted AMQP URI>"

// Redacted returns scheme://***@host[:port][/vhost], and "<redacted AMQP URI>" where it is
// not certain which part is which.
func (u URI) Redacted() string {
	p, err := url.Parse(string(u))
	if err != nil || p.Opaque != "" || (p.Scheme != "amqp" && p.Scheme != "amqps") {
		return redactedURI
	}
	// An @ that is not the end of user and password may be a part of them that was not
	// percent-encoded: what the parser takes for the host is then a piece of a password.
	separators := 0
	if p.User != nil {
		separators = 1
	}
	if strings.Count(string(u), "@") != separators {
		return redactedURI
	}
	host := p.Host
	if host == "" {
		host = "localhost" // as the client takes it
	}
	s := p.Scheme + "://***@" + host
	if path := p.EscapedPath(); path != "/" {
		s += path
	}
	return s
}

// String returns [URI.Redacted].
func (u URI) String() string { return u.Redacted() }

// Format writes [URI.Redacted], whatever the verb.
func (u URI) Format(f fmt.State, _ rune) { io.WriteString(f, u.Redacted()) }

// LogValue returns [URI.Redacted].
func (u URI) LogValue() slog.Value { return slog.StringValue(u.Redacted()) }

// MarshalText returns [URI.Redacted].
func (u URI) MarshalText() ([]byte, error) { return []byte(u.Redacted()), nil }

// Validate reports that u is empty or no AMQP address. The error shows nothing of it: the
// parser's own texts quote the pieces that they do not understand.
func (u URI) Validate() error {
	if u == "" {
		return errors.New("rabbitmq: URI is missing")
	}
	if _, err := amqp.ParseURI(string(u)); err != nil {
		return errors.New("rabbitmq: URI is no amqp:// or amqps:// address (is its password percent-encoded?)")
	}
	return nil
}

// scrub returns what the broker said without the user's name, which its texts quote.
func scrub(err *amqp.Error) *amqp.Error {
	scrubbed := *err
	for _, before := range []string{"user '", "user was '"} {
		head, tail, found := strings.Cut(scrubbed.Reason, before)
		if _, rest, ended := strings.Cut(tail, "'"); found && ended {
			scrubbed.Reason = head + before + "***'" + rest
		}
	}
	return &scrubbed
}
