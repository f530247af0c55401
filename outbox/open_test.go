package outbox_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/outbox"
)

func TestMessage(t *testing.T) {
	msg := full.Message()
	want := message.Metadata{
		"outbox_event_type": "users.registered", "outbox_subject_id": "0199a1c2-0000-7000-8000-00000000002a",
		"outbox_created_at": "1737500000123", "outbox_attempts": "3",
	}
	if msg.UUID != eventID.String() || string(msg.Payload) != "secret" || !maps.Equal(msg.Metadata, want) {
		t.Errorf("%s %s %v", msg.UUID, msg.Payload, msg.Metadata)
	}
	for key := range want {
		if envelope.IsReserved(key) {
			t.Errorf("%s does not survive a transport", key)
		}
	}
	e, err := outbox.FromMessage(msg)
	if err != nil || e.EventID != eventID || e.EventType != full.EventType || string(e.Payload) != "secret" || e.SubjectID != full.SubjectID ||
		!e.CreatedAt.Equal(createdAt.Truncate(time.Millisecond)) || e.Attempts != 3 {
		t.Errorf("%v, %v", e, err)
	}
	bare := (&outbox.Envelope{EventID: eventID, EventType: "a"}).Message()
	if !maps.Equal(bare.Metadata, message.Metadata{"outbox_event_type": "a", "outbox_attempts": "0"}) {
		t.Errorf("%v", bare.Metadata)
	}
}

func TestFromMessage(t *testing.T) {
	for _, test := range []struct {
		rule, id string
		metadata message.Metadata
		want     string
	}{
		{"the least", eventID.String(), message.Metadata{"outbox_event_type": "a"}, ""},
		{"no numbers", eventID.String(), message.Metadata{"outbox_event_type": "a", "outbox_attempts": "x", "outbox_created_at": "y"}, ""},
		{"a negative number", eventID.String(), message.Metadata{"outbox_event_type": "a", "outbox_attempts": "-3"}, ""},
		{"nothing", eventID.String(), nil, "event type: is missing"},
		{"no UUID", "order-1", message.Metadata{"outbox_event_type": "a"}, "event id: is not a UUID"},
		{"a subject that is none", eventID.String(), message.Metadata{"outbox_event_type": "a", "outbox_subject_id": "s"}, "subject id: is not a UUID"},
	} {
		msg := message.NewMessage(test.id, nil)
		msg.Metadata = test.metadata
		e, err := outbox.FromMessage(msg)
		if test.want == "" {
			if err != nil || e.Attempts != 0 || !e.CreatedAt.IsZero() {
				t.Errorf("%s: %v, %v", test.rule, e, err)
			}
			continue
		}
		if !errors.Is(err, outbox.ErrInvalidEvent) || !envelope.IsPermanent(err) || err.Error() != "outbox: invalid_event: "+test.want {
			t.Errorf("%s: %v", test.rule, err)
		}
	}
}
