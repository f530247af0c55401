package envelope

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
)

// DeriveNamespace is the namespace of the UUIDv5 that [Derive] makes: that of the URL
// https://github.com/watermill-envelope/envelope. It never changes.
const DeriveNamespace = "f3203642-6a4a-5b1a-a392-4f099fa47b1f"

// correlationID is the metadata name of Watermill's correlation id middleware.
const correlationID = "correlation_id"

// Derive returns a new message made because of cause, which it does not change. The name says
// what this output is and is unique among the outputs of one handler for one message: the new
// id is a UUIDv5 (in [DeriveNamespace]) of the cause's id, LF and name, so that a handler that
// runs again for the same hook, also for a replay of it, makes the same message. When cause
// has no UUID, the new id is a UUIDv7.
//
// The new message has what may be kept of another message's: source, tenant, content type,
// headers, ordering key, instance, region, trace context and user metadata. It has Watermill's
// correlation id (correlation_id): that of cause, else cause's id. Set
// [MetadataContentType] when payload is of another type. A cause without an envelope, or a
// malformed one, gives a message without an envelope, which publishing gives one.
//
// The context has the values of cause's context and is never done: Watermill's Timeout
// cancels that one before what a handler made is published. The payload is shared.
func Derive(cause *message.Message, name string, payload []byte) *message.Message {
	opened := peek(cause)
	var e entries
	e.read(opened.Metadata)
	hasEnvelope := e.at[entryID] != "" && e.at[entryMalformed] == ""
	if e.at[entryMalformed] != "" {
		e.keepNothing()
	} else {
		e.keepDerived()
	}
	id := NewID()
	if opened.UUID != "" {
		id = uuid.NewSHA1(uuid.MustParse(DeriveNamespace), []byte(opened.UUID+"\n"+name)).String()
	}
	if hasEnvelope {
		e.at[entryID] = id
	}
	msg := e.message(opened, payload)
	msg.UUID = id
	msg.SetContext(context.WithoutCancel(cause.Context()))
	if msg.Metadata[correlationID] == "" && opened.UUID != "" {
		msg.Metadata[correlationID] = opened.UUID
	}
	return msg
}

// peek is unsealed without a change to msg.
func peek(msg *message.Message) *message.Message {
	if msg.Metadata[MetadataVersion] == "" {
		return msg
	}
	same := message.NewMessage(msg.UUID, msg.Payload)
	same.Metadata = msg.Metadata
	same.SetContext(msg.Context())
	return unsealed(same)
}

// Replay returns a copy of msg that is marked as a deliberate replay: the same hook, with its
// id, verification and claim, and replayID as [MetadataReplayID], which is a UUIDv7 when it is
// empty. It keeps the context and shares the payload; msg is not changed.
//
// A new replay is a publish of its own, under the delivery id that has its replay id, so it
// loses [MetadataReceipt]: asking twice for a replay of one name is one replay to a broker that
// deduplicates. A message that came in as that very replay keeps its receipt.
//
// A malformed message is copied without the mark, since its bytes are passed on as they are.
func Replay(msg *message.Message, replayID string) *message.Message {
	opened := peek(msg)
	if IsMalformed(opened) {
		return opened.CopyWithContext()
	}
	var e entries
	e.read(opened.Metadata)
	switch {
	case e.at[entryMalformed] != "":
		e.keepNothing()
	case e.at[entryID] != "" && e.at[entryID] != opened.UUID:
		e.keepDerived()
		e.at[entryID] = opened.UUID
	}
	if replayID == "" {
		replayID = NewID()
	}
	if e.at[entryReplayID] != replayID {
		e.at[entryReplayID], e.at[entryReceipt] = replayID, ""
	}
	copied := e.message(opened, opened.Payload)
	copied.UUID = opened.UUID
	return copied
}
