package envelope

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
)

// entries are those of an open message's metadata that are not the user's, by the index of
// their name below; the empty string is an absent one.
type entries struct {
	at [entryCount]string

	// ownsTrace: entries named traceparent and tracestate are a trace context, or are not
	// to be kept. Otherwise they are user metadata. ownsContentType is the same for
	// content_type.
	ownsTrace, ownsContentType bool

	// textOnly: the user's entries are those that are UTF-8. A malformed message keeps native
	// attributes of any bytes, which nothing that is made of it could be sealed with.
	textOnly bool

	// others counts the entries that read did not take: an upper bound of the user's.
	others int
}

// Errors are found in this order. The first textEntryCount are sealed as strings.
const (
	entryID = iota
	entrySourceID
	entryTenantID
	entryReceivedAt
	entryContentType
	entryDedupeKey
	entryReplayID
	entryIdempotencyKey
	entryOrderingKey
	entryVerification
	entryFlagged
	entryInstance
	entryRegion
	entryTraceparent
	entryTracestate
	entryHeaders
	entryUnknown
	entrySize
	entrySHA256
	entryClaim
	entryRedeemed
	entryMalformed
	entryFallback
	entryReceipt
	entryVersion

	entryCount
	textEntryCount = entryTracestate + 1
	noEntry        = -1
)

var entryNames = [entryCount]string{
	MetadataID,
	MetadataSourceID,
	MetadataTenantID,
	MetadataReceivedAt,
	MetadataContentType,
	MetadataDedupeKey,
	MetadataReplayID,
	MetadataIdempotencyKey,
	MetadataOrderingKey,
	MetadataVerification,
	MetadataFlagged,
	MetadataInstance,
	MetadataRegion,
	MetadataTraceparent,
	MetadataTracestate,
	MetadataHeaders,
	MetadataUnknown,
	MetadataSize,
	MetadataSHA256,
	MetadataClaim,
	MetadataRedeemed,
	MetadataMalformed,
	MetadataFallback,
	MetadataReceipt,
	MetadataVersion,
}

// entryOf returns the index of a name, or noEntry.
func entryOf(name string) int {
	switch name {
	case MetadataID:
		return entryID
	case MetadataSourceID:
		return entrySourceID
	case MetadataTenantID:
		return entryTenantID
	case MetadataReceivedAt:
		return entryReceivedAt
	case MetadataContentType:
		return entryContentType
	case MetadataDedupeKey:
		return entryDedupeKey
	case MetadataReplayID:
		return entryReplayID
	case MetadataIdempotencyKey:
		return entryIdempotencyKey
	case MetadataOrderingKey:
		return entryOrderingKey
	case MetadataVerification:
		return entryVerification
	case MetadataFlagged:
		return entryFlagged
	case MetadataInstance:
		return entryInstance
	case MetadataRegion:
		return entryRegion
	case MetadataTraceparent:
		return entryTraceparent
	case MetadataTracestate:
		return entryTracestate
	case MetadataHeaders:
		return entryHeaders
	case MetadataUnknown:
		return entryUnknown
	case MetadataSize:
		return entrySize
	case MetadataSHA256:
		return entrySHA256
	case MetadataClaim:
		return entryClaim
	case MetadataRedeemed:
		return entryRedeemed
	case MetadataMalformed:
		return entryMalformed
	case MetadataFallback:
		return entryFallback
	case MetadataReceipt:
		return entryReceipt
	case MetadataVersion:
		return entryVersion
	}
	return noEntry
}

// read sorts md out in one pass. A trace context that is none stays user metadata.
func (e *entries) read(md message.Metadata) {
	for name, value := range md {
		if i := entryOf(name); i != noEntry {
			e.at[i] = value
		} else {
			e.others++
		}
	}
	if e.ownsTrace = ValidTraceparent(e.at[entryTraceparent]); !e.ownsTrace {
		if e.at[entryTraceparent] != "" || e.at[entryTracestate] != "" {
			e.at[entryTraceparent], e.at[entryTracestate] = "", ""
			e.others += 2
		}
	}
}

// keep empties all entries but those.
func (e *entries) keep(indexes ...int) {
	kept := entries{ownsTrace: e.ownsTrace, ownsContentType: e.ownsContentType, textOnly: e.textOnly}
	for _, i := range indexes {
		kept.at[i] = e.at[i]
	}
	*e = kept
}

// count is the number of entries that write writes.
func (e *entries) count() int {
	n := 0
	for i := range e.at {
		if e.at[i] != "" {
			n++
		}
	}
	return n
}

// write puts the entries that are not empty into md.
func (e *entries) write(md message.Metadata) {
	for i := range e.at {
		if e.at[i] != "" {
			md[entryNames[i]] = e.at[i]
		}
	}
}

// isUsers reports whether the entry is the user's own, with e being the others of the same
// message.
func (e *entries) isUsers(name, value string) bool {
	if e.textOnly && (!utf8.ValidString(name) || !utf8.ValidString(value)) {
		return false
	}
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
	msg := message.NewMessage(e.at[entryID], payload)
	msg.SetContext(from.Context())
	msg.Metadata = make(message.Metadata, len(from.Metadata)+8)
	for name, value := range from.Metadata {
		if e.isUsers(name, value) {
			msg.Metadata[name] = value
		}
	}
	if reason := msg.Metadata[metadataReason]; !utf8.ValidString(reason) {
		msg.Metadata[metadataReason] = strings.ToValidUTF8(reason, "\uFFFD")
	}
	e.write(msg.Metadata)
	return msg
}

// metadataReason is where Watermill's PoisonQueue writes the text of the error that a handler
// failed with. An error may quote bytes, and a message that fails must find its way into
// the poison topic all the same: of all metadata this one is repaired instead of refused.
const metadataReason = "reason_poisoned"

// check returns the error of the first entry that cannot be sealed. The claim is checked by
// heldClaim.
func (e *entries) check() error {
	for i := range textEntryCount {
		if !utf8.ValidString(e.at[i]) {
			return invalidEntry(entryNames[i], "not valid UTF-8")
		}
	}
	if _, ok := parseDecimal(e.at[entryReceivedAt]); !ok {
		return invalidEntry(MetadataReceivedAt, "not a decimal integer of 64 bits")
	}
	if e.at[entryFlagged] != "" && e.at[entryFlagged] != "true" {
		return invalidEntry(MetadataFlagged, "neither true nor absent")
	}
	if err := checkHeadersText(e.at[entryHeaders]); err != nil {
		return err
	}
	return checkUnknownText(e.at[entryUnknown])
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
	if strings.HasPrefix(name, "ankusa_") { // as nearly all are written
		return true
	}
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
