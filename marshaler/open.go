package marshaler

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

// Received is a message as it came from the transport.
type Received struct {
	// Body is not kept, and not changed.
	Body []byte
	// Native are the attributes beside the body; nil is none. Of several values of one name
	// the first one counts. It may be ranged over several times.
	Native iter.Seq2[string, string]
	// AsCame are the attributes under the names that they have on the wire, where Native has
	// others: what a malformed message keeps and is passed on with. nil: Native.
	AsCame iter.Seq2[string, string]
	// ID is the transport's own id of the message, if it has one, and Key its partition key:
	// both are kept of a malformed message only.
	ID, Key string
	// Receipt is the broker's own name of the stored copy, if it shows one.
	Receipt string
	// Topic is what the [Observer] is told.
	Topic string
	// Fallback reads a message that is none of ours; nil: nothing does.
	Fallback func() (*message.Message, error)
}

// Open opens a message. It never fails, never panics and never returns nil: what cannot be
// read is opened as malformed. The result aliases nothing of r, except what r.Fallback
// returned.
//
// Fallback is asked when the body is refused and no attribute is called
// ankusa_message_version: a broken message of ours stays malformed. Its message is marked
// with [envelope.MetadataFallback], and names that begin with ankusa_ or envelope_ are
// removed from its metadata. Its error, its panic and its nil mean malformed, and so does a
// message that it has itself opened as malformed.
func (w *Wire) Open(r Received) *message.Message {
	msg, err := envelope.Open(r.Body)
	if err != nil {
		msg = w.openOther(r, err)
	} else if r.Native != nil {
		for name, value := range r.Native {
			if usable(name, value) {
				if _, ok := msg.Metadata[name]; !ok {
					msg.Metadata[name] = value
				}
			}
		}
	}
	if r.Receipt != "" {
		msg.Metadata[envelope.MetadataReceipt] = r.Receipt
	}
	return msg
}

// openOther opens a message whose body is refused.
func (w *Wire) openOther(r Received, reason error) *message.Message {
	native := make(map[string]string)
	ours := false
	all := r.AsCame
	if all == nil {
		all = r.Native
	}
	if all != nil {
		for name, value := range all {
			if _, ok := native[name]; !ok {
				native[name] = value
			}
			ours = ours || strings.EqualFold(name, envelope.MetadataVersion)
		}
	}
	if r.Fallback != nil && !ours {
		if msg, err := ask(r.Fallback); err == nil {
			if w.Observer != nil {
				w.Observer.Fallback(r.Topic)
			}
			return msg
		}
	}
	msg := envelope.OpenMalformed(r.Body, reason, idOf(r.ID, native), native)
	if r.Key != "" {
		msg.Metadata[envelope.MetadataKey] = r.Key
	}
	if w.Observer != nil {
		var e *envelope.Error
		if errors.As(reason, &e) {
			w.Observer.Malformed(r.Topic, e.Code)
		}
	}
	return msg
}

// idOf returns the id of a malformed message: the first that there is.
func idOf(transport string, native map[string]string) string {
	for _, id := range []string{native[watermillUUID], transport, native[envelope.MetadataID]} {
		if id != "" && utf8.ValidString(id) {
			return id
		}
	}
	return envelope.NewID()
}

var errFallback = errors.New("marshaler: the fallback returned no message")

// ask returns what the fallback reads, as an open message without an envelope.
func ask(fallback func() (*message.Message, error)) (msg *message.Message, err error) {
	defer func() {
		if p := recover(); p != nil {
			msg, err = nil, fmt.Errorf("marshaler: the fallback panicked: %v", p)
		}
	}()
	msg, err = fallback()
	if err != nil {
		return nil, err
	}
	if msg == nil || envelope.IsMalformed(msg) {
		return nil, errFallback
	}
	clean(msg)
	msg.Metadata[envelope.MetadataFallback] = "true"
	return msg, nil
}

// clean takes from a message that carries no envelope what it may not have: our names, and
// what is not text and would make passing it on fail.
func clean(msg *message.Message) {
	if msg.Metadata == nil {
		msg.Metadata = make(message.Metadata)
	}
	for name, value := range msg.Metadata {
		if oursOnly(name) || !utf8.ValidString(name) || !utf8.ValidString(value) {
			delete(msg.Metadata, name)
		}
	}
	if !utf8.ValidString(msg.UUID) {
		msg.UUID = ""
	}
}

// usable reports whether a native attribute is metadata of the user: not ours, not framing,
// and text.
func usable(name, value string) bool {
	return !envelope.IsReserved(name) && !strings.EqualFold(name, contentType) &&
		utf8.ValidString(name) && utf8.ValidString(value)
}

// watermillUUID is where stock marshalers keep a message's UUID.
const watermillUUID = "_watermill_message_uuid"

// subscriberFraming reports whether a subscriber writes this entry into what it received.
func subscriberFraming(name string) bool {
	switch name {
	case "_watermill_amqp_redelivered", "_watermill_message_google_message_id", "publishTime":
		return true
	}
	return false
}

// memoryOnly reports whether a name is never on a wire.
func memoryOnly(name string) bool { return hasPrefixFold(name, "envelope_") }

// oursOnly reports whether a name can come from an envelope only.
func oursOnly(name string) bool { return memoryOnly(name) || hasPrefixFold(name, "ankusa_") }

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
