package envelope

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Message returns the open form of e, which shares Body. An empty ID is minted, a UUIDv7, and
// set in e, so that a second message of it is the same hook.
//
// Headers become lower case, joined and without those that are never forwarded, as
// [ForwardHeaders] says, but without its caps. Entries of Metadata whose name is reserved (see
// [IsReserved]) are left out. A Body beside a Claim counts as the redeemed one. What cannot be
// sealed, such as text that is not UTF-8, is an error of [Prepare].
func (e *Envelope) Message() *message.Message {
	if e.ID == "" {
		e.ID = NewID()
	}
	o := entries{at: [entryCount]string{
		entryID: e.ID, entrySourceID: e.SourceID, entryTenantID: e.TenantID, entryContentType: e.ContentType,
		entryDedupeKey: e.DedupeKey, entryReplayID: e.ReplayID, entryIdempotencyKey: e.IdempotencyKey,
		entryOrderingKey: e.OrderingKey, entryVerification: string(e.Verification.Status),
		entryInstance: e.Instance, entryRegion: e.Region,
		entryTraceparent: e.Traceparent, entryTracestate: e.Tracestate,
		entryHeaders: headersText(e.Headers), entryUnknown: string(e.Unknown),
		entrySize: strconv.Itoa(len(e.Body)), entrySHA256: e.SHA256, entryClaim: e.Claim,
	}}
	if !e.ReceivedAt.IsZero() {
		ms := e.ReceivedAt.UnixMilli()
		o.at[entryReceivedAt] = strconv.FormatInt(ms, 10)
		if time.UnixMilli(ms).Unix() != e.ReceivedAt.Unix() { // it wraps around
			o.at[entryReceivedAt] = e.ReceivedAt.String()
		}
	}
	if e.Verification.Flagged {
		o.at[entryFlagged] = "true"
	}
	if e.Claim != "" && len(e.Body) == 0 {
		o.at[entrySize] = strconv.FormatInt(e.Size, 10)
	} else if e.Claim != "" {
		o.at[entryRedeemed] = "true"
	}
	msg := message.NewMessage(e.ID, e.Body)
	msg.Metadata = make(message.Metadata, o.count()+len(e.Metadata)+metadataRoom)
	for name, value := range e.Metadata {
		if isUserMetadata(e.Traceparent, e.Tracestate, name, value) {
			msg.Metadata[name] = value
		}
	}
	o.write(msg.Metadata)
	return msg
}

// headersText is the text of headers that we write, "" when there are none, and no JSON when
// they are not UTF-8.
func headersText(headers []Header) string {
	if len(headers) == 0 {
		return ""
	}
	text, ok := appendHeaders(nil, headers, false)
	if !ok {
		return errNotUTF8.Error()
	}
	if len(text) == len(`{}`) {
		return ""
	}
	return view(text)
}

// FromMessage returns the envelope of an open message, by the rules of [Prepare] without
// defaults, and with the changes to msg that Prepare makes. Size and SHA256 are computed from
// the payload; for a claim that was redeemed, Body is set beside Claim. The Body shares the
// payload, and nothing else is shared.
//
// The error is an [*Error]; for a malformed message the one that it was opened with.
func FromMessage(msg *message.Message) (*Envelope, error) {
	msg = unsealed(msg)
	if IsMalformed(msg) {
		return nil, malformedError(msg)
	}
	var o entries
	if _, err := o.settle(msg, Defaults{}); err != nil {
		return nil, err
	}
	held, err := o.heldClaim(msg.Payload)
	if err != nil {
		return nil, err
	}
	receivedAt, _ := parseDecimal(o.at[entryReceivedAt])
	e := &Envelope{
		ID: o.at[entryID], SourceID: o.at[entrySourceID], TenantID: o.at[entryTenantID],
		ReceivedAt: time.UnixMilli(receivedAt).UTC(), ContentType: o.at[entryContentType],
		Headers: parseHeaders(o.at[entryHeaders]), Body: msg.Payload, Size: int64(len(msg.Payload)),
		DedupeKey: o.at[entryDedupeKey], ReplayID: o.at[entryReplayID], IdempotencyKey: o.at[entryIdempotencyKey],
		Verification: Verification{VerificationStatus(o.at[entryVerification]), o.at[entryFlagged] != ""},
		Traceparent:  o.at[entryTraceparent], Tracestate: o.at[entryTracestate],
		Instance: o.at[entryInstance], Region: o.at[entryRegion], OrderingKey: o.at[entryOrderingKey],
		Claim: o.at[entryClaim], SHA256: o.at[entrySHA256],
	}
	if !held {
		sum := sha256.Sum256(msg.Payload)
		e.SHA256 = hex.EncodeToString(sum[:])
	} else if len(msg.Payload) == 0 {
		e.Size, _ = parseDecimal(o.at[entrySize])
	}
	if unknown := o.at[entryUnknown]; unknown != "" {
		e.Unknown = []byte(unknown)
	}
	for name, value := range msg.Metadata {
		if o.isUsers(name, value) {
			if e.Metadata == nil {
				e.Metadata = make(map[string]string)
			}
			e.Metadata[name] = value
		}
	}
	return e, nil
}

// HeadersOf returns the forwarded provider headers of an open message in the order of the
// wire. A malformed message has none. The error is that of a [MetadataHeaders] that is not
// one JSON object of strings.
func HeadersOf(msg *message.Message) ([]Header, error) {
	text := msg.Metadata[MetadataHeaders]
	if text == "" || msg.Metadata[MetadataMalformed] != "" {
		return nil, nil
	}
	if err := checkHeadersText(text); err != nil {
		return nil, err
	}
	return parseHeaders(text), nil
}

// parseHeaders returns the headers in the text of a JSON object of strings: of a repeated name
// one, in the first place and with the last value.
func parseHeaders(text string) []Header {
	count, size := measure(text)
	if count == 0 {
		return nil
	}
	headers := make([]Header, 0, count)
	a := arena(make([]byte, 0, size))
	for m := iterate(text); m.next(); {
		headers = append(headers, Header{a.string(m.name), a.string(m.str)})
	}
	return lastValues(headers)
}

// DeliveryIDOf is [Envelope.DeliveryID] of a prepared message; of a malformed one its UUID.
func DeliveryIDOf(prepared *message.Message) string {
	if IsMalformed(prepared) {
		return prepared.UUID
	}
	return deliveryID(prepared.UUID, prepared.Metadata[MetadataReplayID])
}

// LaneKeyOf is [Envelope.LaneKey] of a prepared message. All malformed ones, whose metadata
// cannot be believed, share the lane "malformed".
func LaneKeyOf(prepared *message.Message) string {
	if IsMalformed(prepared) {
		return "malformed"
	}
	md := prepared.Metadata
	return laneKey(md[MetadataOrderingKey], md[MetadataTenantID], md[MetadataSourceID])
}

// PublishID is the id by which a broker deduplicates the publish of a prepared message to a
// topic (Nats-Msg-Id, MessageDeduplicationId): the delivery id, for a message that was not
// received. One that was received never goes out again under the id that it came with, or the
// broker would acknowledge a poison copy or a next step and throw it away: its id is
//
//	<delivery id>:<first 16 hex digits of sha256(receipt, LF, topic)>
//
// with the broker's own name of the copy that was received ([MetadataReceipt]). That is the
// same whenever a handler runs again for that copy, and another for every other copy and
// topic. A topic that is not known is empty.
func PublishID(prepared *message.Message, topic string) string {
	id := DeliveryIDOf(prepared)
	receipt := prepared.Metadata[MetadataReceipt]
	if receipt == "" {
		return id
	}
	sum := sha256.Sum256([]byte(receipt + "\n" + topic))
	return id + ":" + hex.EncodeToString(sum[:8])
}
