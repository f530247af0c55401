package bus

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope"
)

// Keys of the metadata of an open message, which hold what is beside the payload on every
// transport. They are frozen. The UUID of the message is the message id.
const (
	MetadataType        = "hexeract_type"
	MetadataReplyTo     = "hexeract_reply_to"
	MetadataPublishedAt = "hexeract_published_at" // Unix milliseconds, decimal

	// MetadataCorrelationID is also the key of Watermill's own correlation id, so that
	// middleware.CorrelationID carries it on. See [ID] for one that is no UUID.
	MetadataCorrelationID = "correlation_id"

	// MetadataMalformed says why a message that a queue delivered has no type: "missing_type",
	// or "invalid_type:" and what it was, quoted as Go does. Such a message may be published
	// again without a type, to a queue for dead letters.
	MetadataMalformed = "hexeract_malformed"

	// MetadataHeaderPrefix comes before the name of a header that is one of these keys, or
	// starts like this, or in any letter case with ankusa_ or envelope_ (package envelope's), or
	// is what a marshaler or a subscriber of Watermill's writes: _watermill_message_uuid,
	// _watermill_amqp_redelivered, _watermill_message_google_message_id, publishTime. Any other
	// header is metadata under its own name.
	MetadataHeaderPrefix = "hexeract_header_"
)

// A nameKind is what metadata under a name are.
type nameKind int

const (
	isHeader   nameKind = iota
	isProperty          // one of the keys above
	isEscaped           // starts with MetadataHeaderPrefix
	isForeign           // package envelope or Watermill's transports have it for themselves
)

func kindOf(name string) nameKind {
	if name == "" {
		return isHeader
	}
	switch name[0] | 0x20 {
	case '_' | 0x20, 'a', 'e', 'p': // not the traceparent and tracestate of 't', which it carries as they are
		if envelope.IsReserved(name) {
			return isForeign
		}
	case 'c':
		if name == MetadataCorrelationID {
			return isProperty
		}
	case 'h':
		switch name {
		case MetadataType, MetadataReplyTo, MetadataPublishedAt, MetadataMalformed:
			return isProperty
		}
		if strings.HasPrefix(name, MetadataHeaderPrefix) {
			return isEscaped
		}
	}
	return isHeader
}

// MetadataOfHeader returns the key under which a header is metadata.
func MetadataOfHeader(name string) string {
	if kindOf(name) == isHeader {
		return name
	}
	return MetadataHeaderPrefix + name
}

// HeaderOfMetadata returns the header that metadata under this key are. It reports false for
// what is none: the properties of a message, what package envelope says of a message that it
// carried (ankusa_..., envelope_...), and what Watermill's transports write.
func HeaderOfMetadata(key string) (name string, ok bool) {
	switch kindOf(key) {
	case isHeader:
		return key, true
	case isEscaped:
		return key[len(MetadataHeaderPrefix):], true
	}
	return "", false
}

// idSpace is the namespace of [ID].
var idSpace = uuid.NameSpaceOID

// ID returns the UUID that s stands for: the one that it writes, in any of the forms that Rust
// reads (with or without hyphens, in braces, as a URN, in any letter case), or else the UUIDv5
// of s in the OID namespace. Watermill's ids are free text, Hexeract's are UUIDs, and an id
// must stay the same however often a message is delivered.
func ID(s string) uuid.UUID {
	id, ok := ParseID(s)
	if !ok {
		id = uuid.NewSHA1(idSpace, []byte(s))
	}
	return id
}

// ParseID returns the UUID that s writes.
func ParseID(s string) (uuid.UUID, bool) {
	if len(s) == len("{00000000-0000-0000-0000-000000000000}") && (s[0] != '{' || s[len(s)-1] != '}') {
		return uuid.Nil, false
	}
	id, err := uuid.Parse(s)
	return id, err == nil
}

// Message returns the open form of e: a Watermill message that any publisher takes. It shares
// the payload.
func (e *Envelope) Message() *message.Message {
	const properties = 4
	msg := message.NewMessage(e.MessageID.String(), e.Payload)
	msg.Metadata = make(message.Metadata, properties+len(e.Headers))
	for name, value := range e.Headers {
		msg.Metadata[MetadataOfHeader(name)] = value
	}
	if e.MessageType != "" {
		msg.Metadata[MetadataType] = e.MessageType
	}
	msg.Metadata[MetadataCorrelationID] = e.CorrelationID.String()
	if e.ReplyTo != "" {
		msg.Metadata[MetadataReplyTo] = e.ReplyTo
	}
	if !e.PublishedAt.IsZero() {
		msg.Metadata[MetadataPublishedAt] = strconv.FormatInt(millis(e.PublishedAt), 10)
	}
	return msg
}

// millis is t in Unix milliseconds, as near as 64 bits come.
func millis(t time.Time) int64 {
	const last = math.MaxInt64 / 1000
	switch s := t.Unix(); {
	case s >= last:
		return math.MaxInt64
	case s <= -last:
		return math.MinInt64
	}
	return t.UnixMilli()
}

// FromMessage returns the envelope of an open message, which shares its payload. The message
// may come from any transport that carries metadata.
//
// Ids that are no UUIDs are mapped as [ID] says; an empty UUID is minted, and set in msg. A
// message without a correlation id starts a chain of its own: its message id. Without a time
// that can be read it was published now.
//
// The error is an InvalidTopology: the message has no type.
func FromMessage(msg *message.Message) (*Envelope, error) {
	e := &Envelope{
		MessageType: msg.Metadata[MetadataType], Payload: msg.Payload,
		ReplyTo: msg.Metadata[MetadataReplyTo], PublishedAt: PublishedAtOf(msg),
	}
	if err := checkType(msg); err != nil {
		return nil, err
	}
	if msg.UUID == "" {
		msg.UUID = NewID().String()
	}
	e.MessageID = ID(msg.UUID)
	e.CorrelationID = CorrelationIDOf(msg)
	for key, value := range msg.Metadata {
		if name, ok := HeaderOfMetadata(key); ok {
			if e.Headers == nil {
				e.Headers = make(map[string]string, len(msg.Metadata))
			}
			e.Headers[name] = value
		}
	}
	return e, nil
}

// PublishedAtOf returns when an open message was published: now, where it does not say.
func PublishedAtOf(msg *message.Message) time.Time {
	ms, err := strconv.ParseInt(msg.Metadata[MetadataPublishedAt], 10, 64)
	if err != nil {
		return now()
	}
	return time.UnixMilli(ms).UTC()
}

// checkType refuses an open message that has no type.
func checkType(msg *message.Message) error {
	switch why, _, _ := strings.Cut(msg.Metadata[MetadataMalformed], ":"); {
	case msg.Metadata[MetadataType] != "":
		return nil
	case why == "invalid_type":
		return invalid("message type", "is not UTF-8")
	}
	return invalid("message type", "is missing")
}
