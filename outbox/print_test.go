package outbox_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/outbox"
)

// full has every field, and a secret where only the payload may have one.
var full = outbox.Envelope{
	EventID: eventID, EventType: "users.registered", Payload: []byte("secret"), SubjectID: uuid.NullUUID{UUID: subjectID, Valid: true},
	CreatedAt: createdAt, Attempts: 3, LastError: "no stock", NextRetryAt: createdAt.Add(time.Second), DeliveredAt: createdAt.Add(time.Minute),
}

const (
	fullLine = `outbox event_id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 event_type=users.registered payload=<6 bytes> ` +
		`subject_id=0199a1c2-0000-7000-8000-00000000002a created_at=2025-01-21T22:53:20.123Z attempts=3 last_error="no stock" ` +
		`next_retry_at=2025-01-21T22:53:21.123Z delivered_at=2025-01-21T22:54:20.123Z`
	fullGo = `outbox.Envelope{EventID:"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10", EventType:"users.registered", Payload:<6 bytes>, ` +
		`SubjectID:"0199a1c2-0000-7000-8000-00000000002a", CreatedAt:"2025-01-21T22:53:20.123Z", Attempts:3, LastError:"no stock", ` +
		`NextRetryAt:"2025-01-21T22:53:21.123Z", DeliveredAt:"2025-01-21T22:54:20.123Z"}`
	fullJSON = `{"event_id":"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10","event_type":"users.registered","payload":"\u003c6 bytes\u003e",` +
		`"subject_id":"0199a1c2-0000-7000-8000-00000000002a","created_at":"2025-01-21T22:53:20.123Z","attempts":"3","last_error":"no stock",` +
		`"next_retry_at":"2025-01-21T22:53:21.123Z","delivered_at":"2025-01-21T22:54:20.123Z"}`
	emptyLine = `outbox event_id=00000000-0000-0000-0000-000000000000 event_type="" payload=<0 bytes> attempts=0`
)

func TestPrint(t *testing.T) {
	for format, want := range map[string]string{
		"%v": fullLine, "%+v": fullLine, "%s": fullLine, "%d": fullLine, "%x": fullLine, "%X": fullLine, "%t": fullLine, "%c": fullLine,
		"%U": fullLine, "%e": fullLine, "%b": fullLine, "%o": fullLine, "% x": fullLine, "%#v": fullGo, "%q": fmt.Sprintf("%q", fullLine), "%.6s": "outbox",
	} {
		if got := fmt.Sprintf(format, full); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", format, got, want)
		}
		if got := fmt.Sprintf(format, &full); got != want {
			t.Errorf("%s of a pointer:\n%s\nwant\n%s", format, got, want)
		}
	}
	if full.String() != fullLine || full.GoString() != fullGo || (outbox.Envelope{}).String() != emptyLine {
		t.Errorf("%s\n%s\n%s", full.String(), full.GoString(), outbox.Envelope{})
	}
	if got, err := json.Marshal(full); err != nil || string(got) != fullJSON {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := full.MarshalText(); err != nil || string(got) != fullLine {
		t.Errorf("%s, %v", got, err)
	}
	letter := outbox.DeadLetter{Envelope: full}
	if got := fmt.Sprintf("%v %+v %#v", letter, []outbox.DeadLetter{letter}, &letter); strings.Contains(got, "secret") || strings.Contains(got, fmt.Sprint([]byte("secret"))) {
		t.Errorf("a dead letter shows %s", got)
	}
}

func TestLogValue(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	log.Info("m", "event", full)
	const want = `{"level":"INFO","msg":"m","event":{"event_id":"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10","event_type":"users.registered","payload":"<6 bytes>",` +
		`"subject_id":"0199a1c2-0000-7000-8000-00000000002a","created_at":"2025-01-21T22:53:20.123Z","attempts":3,"last_error":"no stock",` +
		`"next_retry_at":"2025-01-21T22:53:21.123Z","delivered_at":"2025-01-21T22:54:20.123Z"}}` + "\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}
