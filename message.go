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
	o := entries{
		id: e.ID, sourceID: e.SourceID, tenantID: e.TenantID, contentType: e.ContentType,
		dedupeKey: e.DedupeKey, replayID: e.ReplayID, idempotencyKey: e.IdempotencyKey, orderingKey: e.OrderingKey,
		verification: string(e.Verification.Status),
		instance:     e.Instance, region: e.Region,
		traceparent: e.Traceparent, tracestate: e.Tracestate, ownsTrace: ValidTraceparent(e.Traceparent),
		size: strconv.Itoa(len(e.Body)), sha256: e.SHA256, claim: e.Claim,
		unknown: string(e.Unknown),
	}
	if !e.ReceivedAt.IsZero() {
		ms := e.ReceivedAt.UnixMilli()
		o.receivedAt = strconv.FormatInt(ms, 10)
		if time.UnixMilli(ms).Unix() != e.ReceivedAt.Unix() { // it wraps around
			o.receivedAt = e.ReceivedAt.String()
		}
	}
	if e.Verification.Flagged {
		o.flagged = "true"
	}
	if len(e.Headers) > 0 {
		text, _ := appendHeaders(nil, e.Headers, false)
		if o.headers = view(text); o.headers == "{}" {
			o.headers = ""
		}
	}
	if e.Claim != "" {
		if len(e.Body) > 0 {
			o.redeemed = "true"
		} else {
			o.size = strconv.FormatInt(e.Size, 10)
		}
	}
	msg := message.NewMessage(e.ID, e.Body)
	msg.Metadata = make(message.Metadata, o.count()+len(e.Metadata)+metadataRoom)
	for name, value := range e.Metadata {
		if o.isMetadata(name, value) {
			msg.Metadata[name] = value
		}
	}
	o.write(msg.Metadata)
	return msg
}

// isMetadata reports whether an entry of Envelope.Metadata is the user's. One that would be a
// trace context is not: that is what the fields are for.
func (e *entries) isMetadata(name, value string) bool {
	if name == MetadataTraceparent && ValidTraceparent(value) {
		return false
	}
	return e.isUsers(name, value)
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
	receivedAt, _ := parseDecimal(o.receivedAt)
	e := &Envelope{
		ID: o.id, SourceID: o.sourceID, TenantID: o.tenantID,
		ReceivedAt: time.UnixMilli(receivedAt).UTC(), ContentType: o.contentType,
		Headers: parseHeaders(o.headers), Body: msg.Payload,
		DedupeKey: o.dedupeKey, ReplayID: o.replayID, IdempotencyKey: o.idempotencyKey,
		Verification: Verification{VerificationStatus(o.verification), o.flagged != ""},
		Traceparent:  o.traceparent, Tracestate: o.tracestate,
		Instance: o.instance, Region: o.region, OrderingKey: o.orderingKey,
		Claim: o.claim, SHA256: o.sha256,
	}
	if held && len(msg.Payload) == 0 && o.redeemed == "" {
		e.Size, _ = parseDecimal(o.size)
	} else {
		e.Size = int64(len(msg.Payload))
	}
	if !held {
		sum := sha256.Sum256(msg.Payload)
		e.SHA256 = hex.EncodeToString(sum[:])
	}
	if o.unknown != "" {
		e.Unknown = []byte(o.unknown)
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
