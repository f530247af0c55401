package envelope

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
)

// entries are those of an open message's metadata that are not the user's: one string for
// each constant of metadata.go, empty when absent.
type entries struct {
	id, sourceID, tenantID, receivedAt, contentType  string
	dedupeKey, replayID, idempotencyKey, orderingKey string
	verification, flagged, instance, region          string
	traceparent, tracestate, size, sha256, claim     string
	headers, unknown                                 string
	redeemed, malformed, fallback, receipt           string

	// ownsTrace: entries named traceparent and tracestate are a trace context, or are not
	// to be kept. Otherwise they are user metadata. ownsContentType is the same for
	// content_type.
	ownsTrace, ownsContentType bool
	// sealed: the metadata are the native attributes of a message that was not opened.
	sealed bool
}

// An entry is one of the metadata of an open message.
type entry struct {
	name  string
	value *string
}

// Of the list, the first are texts that are sealed as strings.
const (
	entryCount     = 24
	textEntryCount = 15
)

// list returns all entries; errors are found in this order.
func (e *entries) list() [entryCount]entry {
	return [entryCount]entry{
		{MetadataID, &e.id},
		{MetadataSourceID, &e.sourceID},
		{MetadataTenantID, &e.tenantID},
		{MetadataReceivedAt, &e.receivedAt},
		{MetadataContentType, &e.contentType},
		{MetadataDedupeKey, &e.dedupeKey},
		{MetadataReplayID, &e.replayID},
		{MetadataIdempotencyKey, &e.idempotencyKey},
		{MetadataOrderingKey, &e.orderingKey},
		{MetadataVerification, &e.verification},
		{MetadataFlagged, &e.flagged},
		{MetadataInstance, &e.instance},
		{MetadataRegion, &e.region},
		{MetadataTraceparent, &e.traceparent},
		{MetadataTracestate, &e.tracestate},
		{MetadataSize, &e.size},
		{MetadataSHA256, &e.sha256},
		{MetadataClaim, &e.claim},
		{MetadataHeaders, &e.headers},
		{MetadataUnknown, &e.unknown},
		{MetadataRedeemed, &e.redeemed},
		{MetadataMalformed, &e.malformed},
		{MetadataFallback, &e.fallback},
		{MetadataReceipt, &e.receipt},
	}
}

// read sorts md out in one pass. A trace context that is none stays user metadata.
func (e *entries) read(md message.Metadata) {
	for name, value := range md {
		switch name {
		case MetadataID:
			e.id = value
		case MetadataSourceID:
			e.sourceID = value
		case MetadataTenantID:
			e.tenantID = value
		case MetadataReceivedAt:
			e.receivedAt = value
		case MetadataContentType:
			e.contentType = value
		case MetadataDedupeKey:
			e.dedupeKey = value
		case MetadataReplayID:
			e.replayID = value
		case MetadataIdempotencyKey:
			e.idempotencyKey = value
		case MetadataOrderingKey:
			e.orderingKey = value
		case MetadataVerification:
			e.verification = value
		case MetadataFlagged:
			e.flagged = value
		case MetadataInstance:
			e.instance = value
		case MetadataRegion:
			e.region = value
		case MetadataTraceparent:
			e.traceparent = value
		case MetadataTracestate:
			e.tracestate = value
		case MetadataSize:
			e.size = value
		case MetadataSHA256:
			e.sha256 = value
		case MetadataClaim:
			e.claim = value
		case MetadataHeaders:
			e.headers = value
		case MetadataUnknown:
			e.unknown = value
		case MetadataRedeemed:
			e.redeemed = value
		case MetadataMalformed:
			e.malformed = value
		case MetadataFallback:
			e.fallback = value
		case MetadataReceipt:
			e.receipt = value
		case MetadataVersion:
			e.sealed = true
		}
	}
	if e.ownsTrace = ValidTraceparent(e.traceparent); !e.ownsTrace {
		e.traceparent, e.tracestate = "", ""
	}
}

// write puts the entries that are not empty into md.
func (e *entries) write(md message.Metadata) {
	for _, entry := range e.list() {
		if *entry.value != "" {
			md[entry.name] = *entry.value
		}
	}
}

// isUsers reports whether the entry is the user's own, with e being the others of the same
// message.
func (e *entries) isUsers(name, value string) bool {
	switch name {
	case MetadataTraceparent, MetadataTracestate:
		return !e.ownsTrace && value != ""
	case nativeContentType:
		return !e.ownsContentType
	}
	return !IsReserved(name)
}

// message returns a new message of e, of the user's own entries in from, and of from's
// context.
func (e *entries) message(from *message.Message, payload []byte) *message.Message {
	msg := message.NewMessage(e.id, payload)
	msg.SetContext(from.Context())
	msg.Metadata = make(message.Metadata, len(from.Metadata)+8)
	for name, value := range from.Metadata {
		if e.isUsers(name, value) {
			msg.Metadata[name] = value
		}
	}
	e.write(msg.Metadata)
	return msg
}

// check returns the error of the first entry that cannot be sealed. The claim is checked by
// heldClaim.
func (e *entries) check() error {
	list := e.list()
	for _, entry := range list[:textEntryCount] {
		if !utf8.ValidString(*entry.value) {
			return invalidEntry(entry.name, "not valid UTF-8")
		}
	}
	if _, ok := parseDecimal(e.receivedAt); !ok {
		return invalidEntry(MetadataReceivedAt, "not a decimal integer of 64 bits")
	}
	if e.flagged != "" && e.flagged != "true" {
		return invalidEntry(MetadataFlagged, "neither true nor absent")
	}
	if err := checkHeadersText(e.headers); err != nil {
		return err
	}
	return checkUnknownText(e.unknown)
}

func invalidEntry(name, why string) error {
	return &Error{Code: CodeInvalidField, Field: name, Err: errors.New(why)}
}

// parseDecimal parses a plain decimal integer: what FormatInt writes.
func parseDecimal(s string) (n int64, ok bool) {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || digits[0] == '+' || digits[0] == '0' && s != "0" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// IsReserved reports whether a metadata name is ours (ankusa_*, envelope_*, traceparent,
// tracestate), in any letter case, or the framing of a transport (_watermill_message_uuid,
// _watermill_amqp_redelivered, _watermill_message_google_message_id, publishTime). Such
// names are never written from user metadata, nor taken from a native attribute of a
// well-formed message. All other names are the user's and survive every transport.
func IsReserved(name string) bool {
	switch name {
	case "_watermill_message_uuid", "_watermill_amqp_redelivered", "_watermill_message_google_message_id", "publishTime":
		return true
	}
	return hasPrefixFold(name, "ankusa_") || hasPrefixFold(name, "envelope_") ||
		len(name) == len(MetadataTraceparent) && hasPrefixFold(name, MetadataTraceparent) ||
		len(name) == len(MetadataTracestate) && hasPrefixFold(name, MetadataTracestate)
}

// hasPrefixFold reports whether s starts with prefix, which is lower case, in any ASCII
// letter case.
func hasPrefixFold(s, prefix string) bool {
	if len(s) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if lowerByte(s[i]) != prefix[i] {
			return false
		}
	}
	return true
}

// count is the number of entries that write writes.
func (e *entries) count() int {
	n := 0
	for _, entry := range e.list() {
		if *entry.value != "" {
			n++
		}
	}
	return n
}
