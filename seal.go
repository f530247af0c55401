package envelope

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
)

// SealOptions say how a transport differs from the plain JSON form. The zero value puts all
// user metadata into the watermill_metadata member.
type SealOptions struct {
	// Native reports whether the transport carries this entry of the user's metadata beside
	// the body; the others go into the watermill_metadata member. nil: it carries none.
	// It is not asked about names that are reserved (see [IsReserved]).
	Native func(name, value string) bool
	// EscapeNoncharacters escapes U+FFFE and U+FFFF, which XML refuses (SQS, SNS).
	EscapeNoncharacters bool
}

// Seal appends the wire form of a prepared message to dst: the JSON object, or the raw bytes
// of a malformed message that is passed on unchanged. User metadata for which o.Native
// reports false go into the watermill_metadata member, sorted by name; so does a traceparent
// or tracestate that is no trace context. The size and digest of a body are computed here.
//
// The error is permanent, an [*Error] with [CodeInvalidField] and the name of an entry for
// the member that is not UTF-8, or any error of [Prepare]; a message that was not prepared
// is refused with [MetadataID]. On an error it returns dst as it was.
func Seal(dst []byte, prepared *message.Message, o SealOptions) ([]byte, error) {
	if IsMalformed(prepared) {
		return append(dst, prepared.Metadata[MetadataRaw]...), nil
	}
	var e entries
	e.read(prepared.Metadata)
	err := e.checkPrepared(prepared)
	if err != nil {
		return dst, err
	}
	var f fields
	e.fields(&f, prepared)
	if f.metadata, err = e.memberText(prepared.Metadata, o); err != nil {
		return dst, err
	}
	return f.appendWire(dst, o.EscapeNoncharacters)
}

// SealedSize returns the length in bytes that Seal would append for a prepared message: with
// its body inline, and as a claim stored under tenant (used when the message has no tenant).
// A message that is a claim already, or malformed, has both sizes equal. It neither seals nor
// allocates nor computes a digest. Of a message that Seal refuses it is some length.
func SealedSize(prepared *message.Message, o SealOptions, tenant string) (inline, claim int64) {
	if IsMalformed(prepared) {
		n := int64(len(prepared.Metadata[MetadataRaw]))
		return n, n
	}
	var e entries
	e.read(prepared.Metadata)
	var f fields
	e.fields(&f, prepared)
	inline = f.wireSize(o.EscapeNoncharacters) + e.memberLen(prepared.Metadata, o)
	if f.claim != "" {
		return inline, inline
	}
	if e.at[entryTenantID] != "" {
		tenant = e.at[entryTenantID]
	}
	const ref = len("urn:ankusa:claim:v1::01M39VMD8RA3C5HR4RBV67Y002")
	claim = inline - int64(len(`,"body_base64":""`)) - base64Len(int64(len(f.body))) +
		int64(len(`,"claim":""`)+ref+len(tenant))
	return inline, claim
}

// checkPrepared returns the error of a message that does not prepare to itself.
func (e *entries) checkPrepared(msg *message.Message) error {
	if e.at[entryID] == "" || e.at[entryID] != msg.UUID || e.at[entryVersion] != "" {
		return invalidEntry(MetadataID, "not the UUID: the message is not prepared")
	}
	if e.at[entryClaim] != "" && (len(msg.Payload) > 0 || e.at[entryRedeemed] != "") {
		return invalidEntry(MetadataClaim, "beside its body: the message is not prepared")
	}
	if _, err := e.heldClaim(nil); err != nil {
		return err
	}
	return e.check()
}

// fields puts the message between e and the wire into f, without the user metadata.
func (e *entries) fields(f *fields, msg *message.Message) {
	*f = fields{
		id: e.at[entryID], sourceID: e.at[entrySourceID], tenantID: e.at[entryTenantID], contentType: e.at[entryContentType],
		dedupeKey: e.at[entryDedupeKey], replayID: e.at[entryReplayID], idempotencyKey: e.at[entryIdempotencyKey],
		verification: Verification{VerificationStatus(e.at[entryVerification]), e.at[entryFlagged] != ""},
		headers:      e.at[entryHeaders],
		traceparent:  e.at[entryTraceparent], tracestate: e.at[entryTracestate],
		instance: e.at[entryInstance], region: e.at[entryRegion], orderingKey: e.at[entryOrderingKey],
		unknown: e.at[entryUnknown],
		body:    msg.Payload,
	}
	f.receivedAt, _ = parseDecimal(e.at[entryReceivedAt])
	if e.at[entryClaim] != "" {
		f.claim, f.sha256 = e.at[entryClaim], e.at[entrySHA256]
		f.size, _ = parseDecimal(e.at[entrySize])
	}
}

// inMember reports whether an entry is carried by the watermill_metadata member.
func (e *entries) inMember(name, value string, o SealOptions) bool {
	if name == MetadataTraceparent || name == MetadataTracestate {
		return e.isUsers(name, value)
	}
	return !IsReserved(name) && (o.Native == nil || !o.Native(name, value))
}

// memberText returns the text of the watermill_metadata member, "" when it has no entries.
// It allocates only when it has some.
func (e *entries) memberText(md message.Metadata, o SealOptions) (string, error) {
	if e.others == 0 {
		return "", nil
	}
	var room [16]string
	names, size := room[:0], 0
	for name, value := range md {
		if e.inMember(name, value, o) {
			names = append(names, name)
			size += stringLen(name, false) + stringLen(value, false) + len(`:,`)
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	slices.SortFunc(names, strings.Compare)
	text := make([]byte, 0, len(`{`)+size)
	for i, name := range names {
		text = append(text, "{,"[min(i, 1)])
		var validName, validValue bool
		text, validName = appendString(text, name, false)
		text = append(text, ':')
		text, validValue = appendString(text, md[name], false)
		if !validName || !validValue {
			return "", &Error{Code: CodeInvalidField, Field: name, Err: errMetadataNotUTF8}
		}
	}
	return view(append(text, '}')), nil
}

var errMetadataNotUTF8 = errors.New("metadata that is not valid UTF-8 has no place in JSON")

// memberLen is the length of the watermill_metadata member, with the comma before it.
func (e *entries) memberLen(md message.Metadata, o SealOptions) int64 {
	if e.others == 0 {
		return 0
	}
	n := 0
	for name, value := range md {
		if e.inMember(name, value, o) {
			n += stringLen(name, o.EscapeNoncharacters) + stringLen(value, o.EscapeNoncharacters) + len(`:,`)
		}
	}
	if n == 0 {
		return 0
	}
	return int64(n + len(`,"watermill_metadata":{}`) - len(`,`))
}

// checkHeadersText returns the error of headers that would not be one JSON object of
// strings: nothing in them may end the headers member and start another.
func checkHeadersText(text string) error {
	if text != "" && !validStrings(text) {
		return invalidEntry(MetadataHeaders, "not one JSON object of strings")
	}
	return nil
}

// checkUnknownText returns the error of unknown members that would not be one JSON object
// or that are known.
func checkUnknownText(text string) error {
	if text != "" && !validUnknown(text) {
		return invalidEntry(MetadataUnknown, "not one JSON object of members that are unknown")
	}
	return nil
}

// Check returns the error that [Seal] would return for user metadata of a prepared message:
// entries that the transport does not carry beside the body and that are not UTF-8. It is for
// those who prepare messages and must know before anything is stored or sent.
func (o SealOptions) Check(prepared *message.Message) error {
	if IsMalformed(prepared) {
		return nil
	}
	var e entries
	first, found, read := "", false, false
	for name, value := range prepared.Metadata {
		if strings.HasPrefix(name, "ankusa_") || utf8.ValidString(name) && utf8.ValidString(value) {
			continue // ours, or with nothing to find
		}
		if !read {
			e.read(prepared.Metadata)
			read = true
		}
		if e.inMember(name, value, o) && (!found || name < first) {
			first, found = name, true
		}
	}
	if found {
		return &Error{Code: CodeInvalidField, Field: first, Err: errMetadataNotUTF8}
	}
	return nil
}
