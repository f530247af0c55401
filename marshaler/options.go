package marshaler

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope"
)

// DefaultMaxMessageBytes is the limit of a wrapped transport when none is given.
const DefaultMaxMessageBytes = 1 << 20

// Options say how a wrapped transport's messages are sealed and opened. The zero value is
// ready to use: it refuses to publish a message that has no source. Every Marshaler has
// fields of the same names and meaning.
type Options struct {
	// Source, Tenant, ContentType, Instance and Region fill in what a message lacks that
	// carries no envelope. They never override what it has.
	Source, Tenant, ContentType, Instance, Region string
	// Ordered writes the lane key ("tenant/source") as ordering key on messages that have
	// none.
	Ordered bool
	// MaxMessageBytes is the most that is sent, counted as payload and names and values of
	// metadata; 0 is [DefaultMaxMessageBytes].
	MaxMessageBytes int64
	// PassThrough lets messages through to subscribers that are not envelopes, as they are,
	// for a topic that still holds messages of the time before: see [WrapSubscriber].
	PassThrough bool
	// Observer counts malformed messages and those that were passed through; nil counts
	// nothing.
	Observer Observer
}

// Validate reports everything that is wrong with o.
func (o Options) Validate() error {
	return errors.Join(
		ValidateDefaults(o.defaults()),
		ValidateLimit("MaxMessageBytes", o.MaxMessageBytes),
	)
}

// ValidateDefaults reports every default that could not be sealed: text that is not UTF-8.
func ValidateDefaults(d envelope.Defaults) error {
	var errs []error
	for _, f := range []struct{ name, value string }{
		{"Source", d.SourceID},
		{"Tenant", d.TenantID},
		{"ContentType", d.ContentType},
		{"Instance", d.Instance},
		{"Region", d.Region},
	} {
		if !utf8.ValidString(f.value) {
			errs = append(errs, fmt.Errorf("marshaler: %s is not valid UTF-8", f.name))
		}
	}
	return errors.Join(errs...)
}

// ValidateLimit reports a limit that is negative.
func ValidateLimit(name string, limit int64) error {
	if limit < 0 {
		return fmt.Errorf("marshaler: negative %s %d", name, limit)
	}
	return nil
}

func (o Options) defaults() envelope.Defaults {
	return envelope.Defaults{
		SourceID: o.Source, TenantID: o.Tenant, ContentType: o.ContentType,
		Instance: o.Instance, Region: o.Region,
	}
}

func (o Options) wire() Wire {
	w := Wire{
		Defaults:        o.defaults(),
		Ordered:         o.Ordered,
		Native:          plainText,
		Carries:         plainText,
		MaxMessageBytes: o.MaxMessageBytes,
		Observer:        o.Observer,
	}
	if w.MaxMessageBytes <= 0 {
		w.MaxMessageBytes = DefaultMaxMessageBytes
	}
	return w
}

// plainText reports whether any transport can be trusted with this entry of metadata: text
// without control characters, under a name that the transport's own framing does not use.
func plainText(name, value string) bool {
	return name != watermillUUID && printable(name) && printable(value)
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return utf8.ValidString(s)
}

// outerUUID is the UUID of the wrapped message: an id that every transport has room for.
func outerUUID(id string) string {
	const most = 36 // the uuid column of watermill-sql
	if len(id) <= most {
		return id
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(id)).String()
}

// structName is how Watermill names a publisher or subscriber in its metrics and logs.
func structName(v any) string {
	if s, ok := v.(fmt.Stringer); ok {
		return s.String()
	}
	name := fmt.Sprintf("%T", v)
	for len(name) > 0 && name[0] == '*' {
		name = name[1:]
	}
	return name
}
