package outbox

import (
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
)

// Keys of the metadata of an open message, which say of an event what is beside its payload. They
// are frozen. The UUID of the message is the event's id. To every transport they are metadata of
// the user's own.
const (
	MetadataEventType = "outbox_event_type"
	MetadataSubjectID = "outbox_subject_id" // absent when the event has no subject
	MetadataCreatedAt = "outbox_created_at" // Unix milliseconds, decimal
	MetadataAttempts  = "outbox_attempts"   // how many deliveries were begun before this one, decimal
)

// Message returns the open form of e: a Watermill message that any publisher takes. It shares
// the payload. LastError, NextRetryAt and DeliveredAt are the row's own and not in it.
func (e *Envelope) Message() *message.Message {
	const keys = 4
	msg := message.NewMessage(e.EventID.String(), e.Payload)
	msg.Metadata = make(message.Metadata, keys)
	msg.Metadata[MetadataEventType] = e.EventType
	if e.SubjectID.Valid {
		msg.Metadata[MetadataSubjectID] = e.SubjectID.UUID.String()
	}
	if !e.CreatedAt.IsZero() {
		msg.Metadata[MetadataCreatedAt] = strconv.FormatInt(e.CreatedAt.UnixMilli(), 10)
	}
	msg.Metadata[MetadataAttempts] = strconv.Itoa(e.Attempts)
	return msg
}

// FromMessage returns the envelope of an open message, which shares its payload. The message may
// have come through any transport that carries metadata.
//
// The error is an InvalidEvent: the message has no type, or its UUID or its subject is no UUID.
// Attempts and a time that cannot be read are zero.
func FromMessage(msg *message.Message) (*Envelope, error) {
	e := &Envelope{EventType: msg.Metadata[MetadataEventType], Payload: msg.Payload}
	if e.EventType == "" {
		return nil, invalid("event type", "is missing")
	}
	var err error
	if e.EventID, err = uuid.Parse(msg.UUID); err != nil {
		return nil, invalid("event id", "is not a UUID")
	}
	if subject := msg.Metadata[MetadataSubjectID]; subject != "" {
		if e.SubjectID.UUID, err = uuid.Parse(subject); err != nil {
			return nil, invalid("subject id", "is not a UUID")
		}
		e.SubjectID.Valid = true
	}
	if ms, err := strconv.ParseInt(msg.Metadata[MetadataCreatedAt], 10, 64); err == nil {
		e.CreatedAt = time.UnixMilli(ms).UTC()
	}
	if n, err := strconv.ParseInt(msg.Metadata[MetadataAttempts], 10, 32); err == nil {
		e.Attempts = int(max(n, 0))
	}
	return e, nil
}
