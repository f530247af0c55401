package envelope

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"
)

// ParseWire parses one message, the JSON object of the wire format, and verifies the size
// and the digest of its body. The result does not refer to data.
//
// Headers are as they were read, in that order; of a repeated name there is one, in the
// first place and with the last value. Metadata has no reserved names, whatever was written
// (see [IsReserved]). Unknown has the members that are not known, each with the text that it
// had, in that order and without the space between them; a repeated one is there as often as
// it was. ReceivedAt is in UTC. An inline body that is empty is not nil; Body is nil beside a
// Claim.
//
// The error is an [*Error] with the code, and the field where it has one, of the first check
// that failed, in the order of the wire format. Any bytes may be parsed: what a message can
// cost is bounded by its length.
func ParseWire(data []byte) (*Envelope, error) { return ParseWireInto(nil, data) }

// ParseWireInto is ParseWire with Body decoded into the spare room of dst, the part between
// its length and its capacity, when it fits there; else it is new memory as with ParseWire.
// dst must not overlap data. On an error the spare room may have been written to.
//
// A loop that is done with each Body before it parses the next message needs one buffer:
//
//	e, err := envelope.ParseWireInto(buf[:0], data)
//	...
//	if cap(e.Body) > cap(buf) {
//		buf = e.Body
//	}
func ParseWireInto(dst []byte, data []byte) (*Envelope, error) {
	var p parser
	body, err := p.read(dst, data)
	if err != nil {
		return nil, err
	}
	return p.envelope(body), nil
}

// AppendWire appends the wire form of e to dst: the JSON object of the wire format, version
// 1, body last. On an error it returns dst as it was.
//
//   - An empty ID is minted, a UUIDv7, and set in e, so that a second attempt writes the same.
//   - A zero ReceivedAt is now, an empty Verification is skipped, an empty IdempotencyKey is
//     computed, and so are Size and SHA256 of a Body.
//   - Headers are written by the rules of [ForwardHeaders] without its caps: lower-case
//     names, no never-forwarded names, values of a repeated name joined.
//   - A Traceparent that is not valid is written as null, and Tracestate with it.
//   - Metadata is written sorted by name, without reserved names (see [IsReserved]).
//   - Unknown is written as it is, but for the space at its ends.
//   - With a Claim and no Body, Size and SHA256 are written as they are. With both, the claim
//     is written if SHA256 is the body's digest.
//
// The error is an [*Error], with [CodeInvalidField] and the name of the wire's member that
// cannot be written: a string that is not UTF-8; received_at, out of 64 bits of
// milliseconds; claim, not a reference or beside a body with another digest; sha256, not a
// digest beside a claim; size, negative; unknown, not one JSON object without members that
// are known. Or it is [CodeTenantMismatch]: the claim is another tenant's.
//
// It does not allocate when dst has room, ID is set, Metadata has at most 16 entries, and
// Headers are at most 32 and as they will be written.
func (e *Envelope) AppendWire(dst []byte) ([]byte, error) {
	if e.ID == "" {
		e.ID = NewID()
	}
	var f fields
	if err := f.fromEnvelope(e); err != nil {
		return dst, err
	}
	return f.appendWire(dst, false)
}

// MarshalJSON returns the wire form, body included, as [Envelope.AppendWire] writes it; but
// an empty ID is an error, as there would be no way to tell the caller which one was minted.
// Note that [encoding/json.Marshal] escapes < > & in what it is given.
func (e Envelope) MarshalJSON() ([]byte, error) {
	var f fields
	if err := f.fromEnvelope(&e); err != nil {
		return nil, err
	}
	return f.appendWire(nil, false)
}

// UnmarshalJSON sets e to the message in data, with all checks of [ParseWire]. null is not a
// message.
func (e *Envelope) UnmarshalJSON(data []byte) error {
	parsed, err := ParseWire(data)
	if err != nil {
		return err
	}
	*e = *parsed
	return nil
}

var (
	errTime        = errors.New("not within 64 bits of Unix milliseconds")
	errClaimDigest = errors.New("SHA256 is not the digest of Body, which is beside the claim")
	errUnknown     = errors.New("not one JSON object without members of the wire format")
)

// fromEnvelope sets f to what is written for e.
func (f *fields) fromEnvelope(e *Envelope) error {
	*f = fields{
		id: e.ID, sourceID: e.SourceID, tenantID: e.TenantID,
		contentType: e.ContentType,
		dedupeKey:   e.DedupeKey, replayID: e.ReplayID,
		idempotencyKey: e.IdempotencyKey,
		verification:   e.Verification,
		traceparent:    e.Traceparent, tracestate: e.Tracestate,
		instance: e.Instance, region: e.Region,
		orderingKey: e.OrderingKey,
		unknown:     view(e.Unknown),
		size:        e.Size,
		sha256:      e.SHA256,
		claim:       e.Claim,
		body:        e.Body,
		headerList:  e.Headers,
		metadataMap: e.Metadata,
	}
	at := e.ReceivedAt
	if at.IsZero() {
		at = time.Now()
	}
	f.receivedAt = at.UnixMilli()
	if time.UnixMilli(f.receivedAt).Unix() != at.Unix() { // it wraps around
		return invalidField("received_at", errTime)
	}
	if f.unknown != "" && !validUnknown(f.unknown) {
		return invalidField("unknown", errUnknown)
	}
	if f.claim != "" && len(f.body) > 0 {
		digest := sha256.Sum256(f.body)
		var text [2 * sha256.Size]byte
		hex.Encode(text[:], digest[:])
		if f.sha256 != string(text[:]) {
			return invalidField("claim", errClaimDigest)
		}
		f.size = int64(len(f.body))
	}
	return nil
}

// inlineHeaders is how many headers are in one allocation with their Envelope.
const inlineHeaders = 16

// envelope returns the message with its body.
func (p *parser) envelope(body []byte) *Envelope {
	headersText, metadataText := p.objectText(memberHeaders), p.objectText(memberMetadata)
	size := p.stringsLen()
	if metadataText != "" {
		size += p.metadata.size
	}
	var e *Envelope
	// Headers whose text has nothing but them, no escapes and no space, are copied as one.
	block := false
	switch {
	case headersText == "":
		e = new(Envelope)
	case p.headers.count <= inlineHeaders:
		both := new(struct {
			Envelope
			headers [inlineHeaders]Header
		})
		e = &both.Envelope
		e.Headers = both.headers[:0:p.headers.count]
		block = len(headersText) == p.headers.size+p.headers.count*len(`"":"",`)+len(`{}`)-len(`,`)
	default:
		e = new(Envelope)
		e.Headers = make([]Header, 0, p.headers.count)
	}
	if block {
		size += len(headersText)
	} else if headersText != "" {
		size += p.headers.size
	}

	a := arena(make([]byte, 0, size))
	e.ID, e.SourceID, e.TenantID = p.string(&a, memberID), p.string(&a, memberSourceID), p.string(&a, memberTenantID)
	e.ReceivedAt = time.UnixMilli(p.receivedAt).UTC()
	e.ContentType = p.string(&a, memberContentType)
	e.Body, e.Size = body, p.size
	e.DedupeKey, e.ReplayID = p.string(&a, memberDedupeKey), p.string(&a, memberReplayID)
	e.IdempotencyKey = p.string(&a, memberIdempotencyKey)
	e.Verification = Verification{VerificationStatus(a.string(p.status)), p.flagged}
	e.Traceparent, e.Tracestate = p.string(&a, memberTraceparent), p.string(&a, memberTracestate)
	e.Instance, e.Region = p.string(&a, memberInstance), p.string(&a, memberRegion)
	e.OrderingKey = p.string(&a, memberOrderingKey)
	e.SHA256, e.Claim = p.string(&a, memberSHA256), p.string(&a, memberClaim)
	switch {
	case block:
		text, from := a.text(headersText), p.members[memberHeaders].start
		for _, h := range p.pairs[:p.headers.count] {
			e.Headers = append(e.Headers, Header{text[h.name.start-from : h.name.end-from], text[h.value.start-from : h.value.end-from]})
		}
	case e.Headers != nil:
		for it := iterate(headersText); it.next(); {
			if it.isString {
				e.Headers = append(e.Headers, Header{a.string(it.name), a.string(it.str)})
			}
		}
	}
	e.Headers = lastValues(e.Headers)
	for it := iterate(metadataText); it.next(); {
		if !it.isString {
			continue
		}
		if name, value := a.string(it.name), a.string(it.str); isUserMetadata(e.Traceparent, e.Tracestate, name, value) {
			if e.Metadata == nil {
				e.Metadata = make(map[string]string)
			}
			e.Metadata[name] = value
		}
	}
	if n := p.unknownTextLen(); n > 0 {
		e.Unknown = p.appendUnknown(make([]byte, 0, n))
	}
	return e
}
