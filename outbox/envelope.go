package outbox

import (
	"time"

	"github.com/google/uuid"
)

// An Envelope is an event and what its row in the table says of it. It is plain data: it may be
// copied, and used by several goroutines as long as none of them writes to it.
//
// Its printed forms ([Envelope.Format] and what is beside it) never show the payload.
type Envelope struct {
	// EventID names the event; the same however often it is delivered. A UUIDv7 where we mint it,
	// but any UUID is read.
	EventID uuid.UUID
	// EventType is the stable name of the payload's type.
	EventType string
	// Payload is JSON.
	Payload []byte
	// SubjectID is what the event is about, such as the id of an order, or null: events with the
	// same one can be delivered in the order of their rows. Null is not the nil UUID.
	SubjectID uuid.NullUUID
	// CreatedAt is when the row was inserted, by the database's clock: on PostgreSQL when its
	// transaction began.
	CreatedAt time.Time
	// Attempts is how many deliveries were begun.
	Attempts int
	// LastError is why the last of them failed, or empty. It is printed as it is.
	LastError string
	// NextRetryAt is when the row is due again: until then a worker has it, or it waits for its
	// next attempt. The zero time means at once. Of a delivered row it says nothing.
	NextRetryAt time.Time
	// DeliveredAt is when the event was delivered, or the zero time.
	DeliveredAt time.Time
}

// NewEnvelope returns the envelope of e as it would be read if it were inserted now.
//
// The payload is compact JSON without HTML escaping, as Rust writes it. The error is a
// Serialization: e is nil, cannot be encoded, or is encoded to something that no consumer decodes
// (more than 127 nested objects and arrays, text that is not UTF-8).
func NewEnvelope(eventID uuid.UUID, e Event) (*Envelope, error) {
	payload, err := encode(e)
	if err != nil {
		return nil, err
	}
	return &Envelope{EventID: eventID, EventType: e.EventType(), Payload: payload, CreatedAt: now()}, nil
}

// NewEnvelopeWithSubject is [NewEnvelope] for an event about this subject.
func NewEnvelopeWithSubject(eventID, subjectID uuid.UUID, e Event) (*Envelope, error) {
	envelope, err := NewEnvelope(eventID, e)
	if err != nil {
		return nil, err
	}
	envelope.SubjectID = uuid.NullUUID{UUID: subjectID, Valid: true}
	return envelope, nil
}

// Restore returns the envelope with these fields, whatever they are: for events that were stored
// elsewhere. Nothing is checked before the event is decoded. The payload is not copied.
func Restore(
	eventID uuid.UUID, eventType string, payload []byte, subjectID uuid.NullUUID, createdAt time.Time,
	attempts int, lastError string, nextRetryAt, deliveredAt time.Time,
) *Envelope {
	return &Envelope{eventID, eventType, payload, subjectID, createdAt, attempts, lastError, nextRetryAt, deliveredAt}
}

// NewID mints an event id, a UUIDv7. Like package crypto/rand, it ends the program when the
// system has no randomness.
func NewID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// now has the precision that every database keeps.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
