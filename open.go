package envelope

import (
	"errors"
	"strconv"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
)

// metadataRoom is how many entries a transport may add to the metadata of an opened message
// before the map has to grow.
const metadataRoom = 8

// Open parses the wire form into a new open message, whose Metadata has room for what a
// transport adds. It does not alias data. User metadata comes from the watermill_metadata
// member; names that are reserved are not taken from it, so that no message can say of itself
// that it was redeemed. Provider headers are checked, not parsed: see [HeadersOf].
//
// The error is an [*Error]; what to do with a message that cannot be read is the marshaler's
// business, see [OpenMalformed].
func Open(data []byte) (*message.Message, error) {
	var f fields
	if err := f.parse(data); err != nil {
		return nil, err
	}
	var e entries
	e.from(&f)
	count := 0
	for m := iterate(f.metadata); m.next(); {
		count++
	}
	msg := message.NewMessage(f.id, f.body)
	msg.Metadata = make(message.Metadata, e.count()+count+metadataRoom)
	for m := iterate(f.metadata); m.next(); {
		name, value := m.name.String(), m.str.String()
		if isUserMetadata(f.traceparent, f.tracestate, name, value) {
			msg.Metadata[name] = value
		}
	}
	e.write(msg.Metadata)
	return msg, nil
}

// from sets e to what f holds beside the id and the body.
func (e *entries) from(f *fields) {
	*e = entries{at: [entryCount]string{
		entryID: f.id, entrySourceID: f.sourceID, entryTenantID: f.tenantID, entryContentType: f.contentType,
		entryDedupeKey: f.dedupeKey, entryReplayID: f.replayID, entryIdempotencyKey: f.idempotencyKey,
		entryOrderingKey: f.orderingKey, entryVerification: string(f.verification.Status),
		entryInstance: f.instance, entryRegion: f.region,
		entryTraceparent: f.traceparent, entryTracestate: f.tracestate,
		entryHeaders: f.headers, entryUnknown: f.unknown, entrySHA256: f.sha256, entryClaim: f.claim,
	}}
	if f.verification.Flagged {
		e.at[entryFlagged] = "true"
	}
	var room [2 * len("-9223372036854775808")]byte
	at := strconv.AppendInt(room[:0], f.receivedAt, 10)
	numbers := string(strconv.AppendInt(at, f.size, 10))
	e.at[entryReceivedAt], e.at[entrySize] = numbers[:len(at)], numbers[len(at):]
}

// OpenMalformed returns the open form of bytes that cannot be read: an empty payload, so that
// no handler takes a broken envelope for a body; the raw bytes and the reason in memory-only
// metadata ([MetadataRaw], [MetadataMalformed]); and the native headers as they came, but for
// names of memory-only metadata. Its UUID and [MetadataID] are id, the transport's own message
// id. Without one it is a native _watermill_message_uuid, else a native ankusa_id (which then
// stays as it came), else a new UUIDv7.
//
// The code is that of the [*Error] in reason's tree, else [CodeInvalidJSON]. Neither raw nor
// native is kept.
func OpenMalformed(raw []byte, reason error, id string, native map[string]string) *message.Message {
	for _, name := range [...]string{"_watermill_message_uuid", MetadataID} {
		if id == "" {
			id = native[name]
		}
	}
	if id == "" {
		id = NewID()
	}
	why := string(CodeInvalidJSON)
	var e *Error
	if errors.As(reason, &e) && e.Code != "" {
		why = string(e.Code)
		if e.Field != "" {
			why += ":" + e.Field
		}
	}
	msg := message.NewMessage(id, nil)
	msg.Metadata = make(message.Metadata, len(native)+metadataRoom)
	for name, value := range native {
		if !hasPrefixFold(name, "envelope_") {
			msg.Metadata[name] = value
		}
	}
	msg.Metadata[MetadataID] = id
	msg.Metadata[MetadataMalformed] = why
	msg.Metadata[MetadataRaw] = string(raw)
	return msg
}

// IsMalformed reports whether msg was opened by [OpenMalformed] and is unchanged since:
// its UUID is what it was and its payload is empty. Such a message carries no envelope,
// whatever its metadata, and is sealed to the bytes that it came with.
func IsMalformed(msg *message.Message) bool {
	return len(msg.Payload) == 0 && msg.Metadata[MetadataMalformed] != "" && msg.UUID == msg.Metadata[MetadataID]
}

// malformedError is the error that a malformed message was opened with.
func malformedError(msg *message.Message) *Error {
	code, field, _ := strings.Cut(msg.Metadata[MetadataMalformed], ":")
	return &Error{Code: Code(code), Field: field}
}

// Raw returns a copy of the bytes of a malformed message as they came, or nil.
func Raw(msg *message.Message) []byte {
	raw, ok := msg.Metadata[MetadataRaw]
	if !ok {
		return nil
	}
	return []byte(raw)
}
