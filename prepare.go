package envelope

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Defaults fill in what a message that carries no envelope lacks. They never override what
// the message has, and never touch a message that carries an envelope: what is absent there
// is absent on purpose.
type Defaults struct {
	SourceID    string // required for such a message, unless it has [MetadataSourceID]
	TenantID    string
	ContentType string
	Instance    string
	Region      string
}

// Prepare returns msg as it would be sealed: msg itself when nothing needs to change, else a
// copy that keeps the context and shares the payload. The rules of open messages (see the
// package documentation) are applied:
//
//   - A malformed message that is unchanged is returned as it is.
//   - A message that a stock subscriber received sealed is opened. One that cannot be opened
//     becomes malformed: its bytes go out again as they are.
//   - A message whose UUID is its [MetadataID] is the same hook. When it has a claim and a
//     payload with the claim's digest, the result has the claim and an empty payload; with
//     another payload, it has the payload and no claim.
//   - A message with another UUID was derived: it loses what belongs to its cause alone.
//   - A message without MetadataID becomes an envelope, with d for what it lacks.
//
// The result prepares to itself, without another digest, and is what [Seal], [SealedSize],
// [DeliveryIDOf], [LaneKeyOf] and [PublishID] take. Unless it is malformed, it has its UUID as
// MetadataID, [MetadataReceivedAt] and [MetadataIdempotencyKey]; a tracestate in it is not
// too long; and in the reason of Watermill's PoisonQueue (reason_poisoned), the text of some
// error, U+FFFD is in the place of bytes that are not UTF-8.
//
// Prepare makes at most two changes to msg, so that a retry has the same id: a minted UUID
// where it had none, and empty Metadata where they were nil. Where there is neither to do,
// several goroutines may prepare one message. Errors are permanent: an
// [*Error] with [CodeInvalidField] and the metadata name (MetadataSourceID for a message
// without envelope that has no source), or [CodeTenantMismatch] for a claim of another tenant.
func Prepare(msg *message.Message, d Defaults) (*message.Message, error) {
	prepared, _, err := prepare(msg, d)
	return prepared, err
}

// Prepare is the function Prepare, and then o.Check, for less than the two cost.
func (o SealOptions) Prepare(msg *message.Message, d Defaults) (*message.Message, error) {
	prepared, ours, err := prepare(msg, d)
	if err != nil || ours {
		return prepared, err
	}
	if err := o.Check(prepared); err != nil {
		return nil, err
	}
	return prepared, nil
}

// prepare is Prepare. It reports whether all metadata are known to be ours.
func prepare(msg *message.Message, d Defaults) (prepared *message.Message, ours bool, err error) {
	msg = unsealed(msg)
	if IsMalformed(msg) {
		return msg, false, nil
	}
	var e entries
	changed, err := e.settle(msg, d)
	if err != nil {
		return nil, false, err
	}
	payload := msg.Payload
	hadClaim := e.at[entryClaim] != ""
	held, err := e.heldClaim(payload)
	switch {
	case err != nil:
		return nil, false, err
	case held && (len(payload) > 0 || e.at[entryRedeemed] != ""):
		e.at[entryRedeemed], e.at[entrySize], payload, changed = "", strconv.Itoa(len(payload)), nil, true
	case hadClaim && !held:
		changed = true
	}
	if e.others > 0 && !utf8.ValidString(msg.Metadata[metadataReason]) {
		changed = true
	}
	if !changed {
		return msg, e.others == 0, nil
	}
	return e.message(msg, payload), false, nil
}

// unsealed returns msg, or what it opens to when it was received without being opened. A
// message that cannot be opened is malformed. The opened form keeps msg's user metadata, but
// an entry in the message itself wins; native attributes of ours are not believed, and
// content_type is one of them.
//
// It makes the changes to msg that [Prepare] may make.
func unsealed(msg *message.Message) *message.Message {
	if msg.Metadata == nil {
		msg.Metadata = make(message.Metadata)
	}
	if msg.Metadata[MetadataVersion] == "" || msg.Metadata[MetadataMalformed] != "" {
		return msg
	}
	opened, err := Open(msg.Payload)
	if err != nil {
		if msg.UUID == "" {
			msg.UUID = NewID()
		}
		opened = OpenMalformed(msg.Payload, err, msg.UUID, msg.Metadata)
	} else {
		for name, value := range msg.Metadata {
			if _, has := opened.Metadata[name]; !has && !isContentType(name) && !IsReserved(name) {
				opened.Metadata[name] = value
			}
		}
	}
	opened.SetContext(msg.Context())
	return opened
}

// nativeContentType names the content type of a message that is not an envelope. Among the
// native attributes of a sealed message it is that of the wire form.
const nativeContentType = "content_type"

func isContentType(name string) bool {
	return len(name) == len(nativeContentType) && hasPrefixFold(name, nativeContentType)
}

// settle reads the metadata of msg, decides what msg is, and changes e to what is sealed of
// it, but for the claim. It reports whether that is a change. A missing UUID is minted.
func (e *entries) settle(msg *message.Message, d Defaults) (changed bool, err error) {
	e.read(msg.Metadata)
	if msg.UUID == "" {
		msg.UUID = NewID()
	}
	switch {
	case e.at[entryMalformed] != "": // and changed since
		e.keepNothing()
		changed = true
	case e.at[entryID] == "":
		e.keepInputs()
		changed = true
	case e.at[entryID] != msg.UUID:
		e.keepDerived()
		e.at[entryID] = msg.UUID
		changed = true
	}
	if e.at[entryID] == "" {
		e.at[entryID] = msg.UUID
		if own := msg.Metadata[nativeContentType]; e.at[entryContentType] == "" && e.isUsers(nativeContentType, own) {
			e.at[entryContentType] = own
		}
		e.fill(d)
		if e.at[entrySourceID] == "" {
			return false, invalidEntry(MetadataSourceID, "absent, and there is no default")
		}
	}
	if e.at[entryReceivedAt] == "" {
		e.at[entryReceivedAt] = strconv.FormatInt(time.Now().UnixMilli(), 10)
		changed = true
	}
	if e.at[entryIdempotencyKey] == "" {
		e.at[entryIdempotencyKey] = idempotencyKey("", e.at[entryTenantID], e.at[entrySourceID],
			e.at[entryDedupeKey], e.at[entryID])
		changed = true
	}
	if len(e.at[entryTracestate]) > maxTracestate {
		e.at[entryTracestate] = TruncateTracestate(e.at[entryTracestate])
		changed = true
	}
	return changed, e.check()
}

// keepNothing leaves nothing of ours that a malformed message came with, and takes nothing of
// ours for the user's. Its other native attributes cannot be told from what was added since:
// they are the user's where they are text.
func (e *entries) keepNothing() {
	*e = entries{ownsTrace: true, ownsContentType: e.at[entryVersion] != "", textOnly: true}
}

// keepInputs leaves what counts in a message that carries no envelope. Trust and identity
// (verification, idempotency key, digest, claim) and texts that are written as they are
// (headers, unknown members) are for an envelope only.
func (e *entries) keepInputs() {
	e.keep(entrySourceID, entryTenantID, entryReceivedAt, entryContentType, entryDedupeKey, entryReplayID,
		entryOrderingKey, entryInstance, entryRegion, entryTraceparent, entryTracestate, entryFallback, entryReceipt)
}

// keepDerived leaves what a message may have of the one that it was made of. What says that
// the cause was checked, or would make the two look like one, stays behind.
func (e *entries) keepDerived() {
	e.keep(entrySourceID, entryTenantID, entryContentType, entryHeaders,
		entryOrderingKey, entryInstance, entryRegion, entryTraceparent, entryTracestate)
}

// fill puts d where there is nothing.
func (e *entries) fill(d Defaults) {
	e.fillOne(entrySourceID, d.SourceID)
	e.fillOne(entryTenantID, d.TenantID)
	e.fillOne(entryContentType, d.ContentType)
	e.fillOne(entryInstance, d.Instance)
	e.fillOne(entryRegion, d.Region)
}

func (e *entries) fillOne(i int, value string) {
	if e.at[i] == "" {
		e.at[i] = value
	}
}

// heldClaim reports whether the message is sealed as its claim: the payload has the claim's
// digest, or there is no payload because it was not redeemed. A claim that no longer holds
// is removed from e. The error is that of a claim that cannot be sealed, where there is no
// payload that could be sealed instead.
func (e *entries) heldClaim(payload []byte) (held bool, err error) {
	if e.at[entryClaim] == "" {
		return false, nil
	}
	tenant, isRef := refTenant(e.at[entryClaim])
	ours := e.at[entryTenantID] == "" || e.at[entryTenantID] == tenant
	if len(payload) > 0 || e.at[entryRedeemed] != "" {
		if isRef && ours && len(e.at[entrySHA256]) == 2*sha256.Size {
			sum := sha256.Sum256(payload)
			var digest [2 * sha256.Size]byte
			hex.Encode(digest[:], sum[:])
			if string(digest[:]) == e.at[entrySHA256] {
				return true, nil
			}
		}
		e.at[entryClaim], e.at[entryRedeemed], e.at[entrySize], e.at[entrySHA256] = "", "", "", ""
		return false, nil
	}
	size, isSize := parseDecimal(e.at[entrySize])
	switch {
	case !isSize || size < 0:
		return false, invalidEntry(MetadataSize, "beside a claim, not the decimal length of a body")
	case !isRef:
		return false, invalidEntry(MetadataClaim, "not a claim reference")
	case !validDigest(e.at[entrySHA256]):
		return false, invalidEntry(MetadataSHA256, "beside a claim, not 64 lower-case hex digits")
	case !ours:
		return false, &Error{Code: CodeTenantMismatch, Err: errOtherTenant}
	}
	return true, nil
}
