package middleware

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
)

// DefaultDiagnosticBytes is the most that one diagnostic entry keeps when [Diagnostics] has no
// Max: several frames of a stack trace.
const DefaultDiagnosticBytes = 8 << 10

// truncated is what a diagnostic entry ends with that was cut.
const truncated = "...[truncated]"

// Diagnostics cuts the metadata that say why a message failed, so that a failed message is not
// refused where the failed go: the text of an error may be of any length, with the stack trace
// of a panic say, and a message that was as large as its transport allows has no room for any.
// It is a wrapper of the publisher that a poison topic, a quarantine or a requeue is published
// with:
//
//	dead, err := hookmw.Diagnostics{}.WrapPublisher(pub, m)
//	poison, err := wmmw.PoisonQueueWithFilter(dead, "hooks.poison", hookmw.ShouldPoison)
//
// Diagnostic entries are those of Watermill's PoisonQueue (reason_poisoned, topic_poisoned,
// handler_poisoned and subscriber_poisoned) and those of Names. First each is cut to Max bytes,
// and bytes in it that are not UTF-8 become U+FFFD. Then, where the message is over the limit of
// the transport and would not be without them, the longest are cut further, or left out in the
// end, until it is sent as it would be without any: a malformed message as it came, a body
// inline. A text that is cut ends with "...[truncated]", between two characters.
//
// Nothing else of a message changes. What is over the limit without diagnostics too is refused
// by pub as before.
//
// The zero value is ready to use. Diagnostics may be used by many goroutines at once.
type Diagnostics struct {
	// Max is the most that each entry keeps, in bytes; 0 is [DefaultDiagnosticBytes].
	Max int
	// Names are more diagnostic entries, in exactly this letter case, such as a stack trace that
	// a middleware of yours writes. Each time set such an entry anew: one that is added to
	// grows with each retry, and loses its end here.
	Names []string
}

// Validate reports a Max that has no room for more than the mark of what is cut, and names that
// are not the user's.
func (d Diagnostics) Validate() error {
	var errs []error
	if d.Max < 0 || d.Max > 0 && d.Max < 2*len(truncated) {
		errs = append(errs, fmt.Errorf("diagnostics: Max %d is under %d", d.Max, 2*len(truncated)))
	}
	for _, name := range d.Names {
		if name == "" || envelope.IsReserved(name) {
			errs = append(errs, fmt.Errorf("diagnostics: %.100q is no name of diagnostics", name))
		}
	}
	return errors.Join(errs...)
}

// WrapPublisher returns a publisher that cuts diagnostics and publishes through pub, in one call
// and in order. sealer is the marshaler that pub was made with; nil stands for pub itself, where
// that is a [marshaler.Sealer]. The error has everything that is wrong with d, pub and sealer.
//
// The publisher has the name of pub (its String), may be used by several goroutines at once, and
// closes pub once. Publish after Close is [marshaler.ErrClosed]. The messages of the caller stay
// as they are, but for what [envelope.Prepare] may change.
func (d Diagnostics) WrapPublisher(pub message.Publisher, sealer marshaler.Sealer) (message.Publisher, error) {
	errs := []error{d.Validate()}
	if pub == nil {
		errs = append(errs, errors.New("diagnostics: nil publisher"))
	}
	if sealer == nil && pub != nil {
		var ok bool
		if sealer, ok = pub.(marshaler.Sealer); !ok {
			errs = append(errs, fmt.Errorf("diagnostics: no sealer, and %T is none", pub))
		}
	}
	if v, ok := sealer.(interface{ Validate() error }); ok {
		errs = append(errs, v.Validate())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	names := []string{
		middleware.ReasonForPoisonedKey, middleware.PoisonedTopicKey,
		middleware.PoisonedHandlerKey, middleware.PoisonedSubscriberKey,
	}
	p := &diagnosticPublisher{wrapper: wrap(pub), sealer: sealer, most: d.Max, names: append(names, d.Names...)}
	p.fitter, _ = sealer.(marshaler.Fitter)
	if p.most == 0 {
		p.most = DefaultDiagnosticBytes
	}
	return p, nil
}

type diagnosticPublisher struct {
	*wrapper
	sealer marshaler.Sealer
	fitter marshaler.Fitter // sealer, where it is one
	most   int
	names  []string
}

func (p *diagnosticPublisher) Publish(topic string, messages ...*message.Message) error {
	if err := p.open(); err != nil {
		return err
	}
	var out []*message.Message // nil while all are passed on themselves
	for i, msg := range messages {
		held := p.diagnosticsOf(msg)
		if len(held) == 0 {
			continue
		}
		out = own(out, messages, i)
		held.write(out[i].Metadata, p.most)
		p.fit(topic, out[i], held)
	}
	if out == nil {
		return p.inner.Publish(topic, messages...)
	}
	return p.inner.Publish(topic, out...)
}

// diagnosticsOf returns the diagnostic entries of a message, cut to the most that they keep.
func (p *diagnosticPublisher) diagnosticsOf(msg *message.Message) diagnostics {
	var held diagnostics
	for _, name := range p.names {
		if value, has := msg.Metadata[name]; has {
			held = append(held, diagnostic{name, cut(value, p.most)})
		}
	}
	return held
}

// fit shortens the diagnostics in msg until it is sent as it would be without them.
func (p *diagnosticPublisher) fit(topic string, msg *message.Message, held diagnostics) {
	prepared, err := p.sealer.Prepare(topic, msg)
	if err == nil && (envelope.IsMalformed(prepared) || p.fitter != nil && p.fitter.Fits(topic, prepared)) {
		return
	}
	// Of a prepared message no digest is computed again. It is no one's: it may be changed.
	trial := msg
	if err == nil && !envelope.IsMalformed(msg) {
		trial = prepared
	}
	held.write(trial.Metadata, -1)
	best := p.form(topic, trial)
	longest := 0
	for _, e := range held {
		longest = max(longest, len(e.value))
	}
	shorter := sort.Search(longest+1, func(n int) bool {
		held.write(trial.Metadata, longest-n)
		return p.form(topic, trial) <= best
	})
	held.write(msg.Metadata, longest-shorter)
}

// A form is how a message is sent. The smaller is the better.
type form int

const (
	asItCame form = iota // a malformed message, with its bytes
	whole                // with its body inline
	asClaim              // too large with its body, but not without
	refused
)

// longestTenant is as long as a tenant can be under which a body is stored.
const longestTenant = "----------------------------------------------------------------"

// form returns how msg is sent.
func (p *diagnosticPublisher) form(topic string, msg *message.Message) form {
	prepared, err := p.sealer.Prepare(topic, msg)
	if err != nil {
		return refused
	}
	if envelope.IsMalformed(prepared) {
		return asItCame
	}
	inline, claim, limit := p.sealer.Size(topic, prepared, longestTenant)
	switch {
	case inline <= limit:
		return whole
	case claim <= limit:
		return asClaim
	}
	return refused
}

// diagnostics are the diagnostic entries of a message.
type diagnostics []diagnostic

type diagnostic struct{ name, value string }

// write writes the entries with at most that many bytes each. It leaves out those of which
// next to nothing would be left.
func (d diagnostics) write(md message.Metadata, most int) {
	for _, e := range d {
		switch {
		case len(e.value) <= most:
			md[e.name] = e.value
		case most < 2*len(truncated):
			delete(md, e.name)
		default:
			md[e.name] = cut(e.value, most)
		}
	}
}

// cut returns value as valid UTF-8 of at most that many bytes, which are enough for truncated.
func cut(value string, most int) string {
	if len(value) > most {
		end := most - len(truncated)
		for range utf8.UTFMax - 1 {
			if end > 0 && !utf8.RuneStart(value[end]) {
				end--
			}
		}
		value = value[:end] + truncated
	}
	if !utf8.ValidString(value) {
		return cut(strings.ToValidUTF8(value, "\uFFFD"), most)
	}
	return value
}
