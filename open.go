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
	var p parser
	body, err := p.read(nil, data)
	if err != nil {
		return nil, err
	}
	metadata := p.objectText(memberMetadata)
	size := 0
	if metadata != "" {
		size = p.metadata.size
	}
	var e entries
	a := e.parsed(&p, size)
	msg := message.NewMessage(e.at[entryID], body)
	msg.Metadata = make(message.Metadata, e.count()+min(p.metadata.count, metadataRoom)+metadataRoom)
	for m := iterate(metadata); m.next(); {
		if !m.isString {
			continue
		}
		name, value := a.string(m.name), a.string(m.str)
		if isUserMetadata(e.at[entryTraceparent], e.at[entryTracestate], name, value) {
			msg.Metadata[name] = value
		}
	}
	e.write(msg.Metadata)
	return msg, nil
}

// parsed sets e to what was read. All strings share one allocation: the result, which has room
// bytes left.
func (e *entries) parsed(p *parser, room int) arena {
	const numbers = 2 * len("-9223372036854775808")
	headers := p.objectText(memberHeaders)
	a := arena(make([]byte, 0, p.stringsLen()+numbers+len(headers)+p.unknownTextLen()+room))
	for _, s := range [...]struct{ entry, member int }{
		{entryID, memberID},
		{entrySourceID, memberSourceID},
		{entryTenantID, memberTenantID},
		{entryContentType, memberContentType},
		{entryDedupeKey, memberDedupeKey},
		{entryReplayID, memberReplayID},
		{entryIdempotencyKey, memberIdempotencyKey},
		{entryOrderingKey, memberOrderingKey},
		{entryInstance, memberInstance},
		{entryRegion, memberRegion},
		{entryTraceparent, memberTraceparent},
		{entryTracestate, memberTracestate},
		{entrySHA256, memberSHA256},
		{entryClaim, memberClaim},
	} {
		e.at[s.entry] = p.string(&a, s.member)
	}
	e.at[entryReceivedAt] = a.integer(p.receivedAt)
	e.at[entrySize] = a.integer(p.size)
	e.at[entryVerification] = a.string(p.status)
	if p.flagged {
		e.at[entryFlagged] = "true"
	}
	e.at[entryHeaders] = a.object(headers, p.headers.others)
	if p.unknownRuns > 0 {
		start := len(a)
		a = p.appendUnknown(a)
		e.at[entryUnknown] = view(a[start:])
	}
	return a
}

func (a *arena) integer(n int64) string {
	start := len(*a)
	*a = strconv.AppendInt(*a, n, 10)
	return view((*a)[start:])
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
