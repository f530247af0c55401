package outbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// A batch becomes one call for each topic, and where the order of a subject asks for it several
// of them, one behind the other.
func TestPlan(t *testing.T) {
	for _, test := range []struct {
		rule    string
		rows    string // topic and subject of each
		ordered bool
		want    string
	}{
		{"one topic", "a1 a2 a1", false, "a: 0 1 2"},
		{"two topics", "a1 b1 a1 b2", false, "a: 0 2|b: 1 3"},
		{"order within a topic", "a1 a2 a1", true, "a: 0 1 2"},
		{"order across topics", "a1 b1 a1", true, "a: 0|b: 1|a: 2"},
		{"other subjects do not wait", "a1 b1 a2 b2 a1 a3", true, "a: 0 2 5|b: 1 3|a: 4"},
		{"no subject, no order", "a- b- a-", true, "a: 0 2|b: 1"},
		{"a row that cannot be decoded", "a1 ?1 a1", true, "a: 0"},
		{"and holds nobody else back", "a1 ?1 a1 b2", true, "a: 0|b: 3"},
	} {
		var rows []row
		for n, of := range strings.Fields(test.rows) {
			r := row{id: int64(n), envelope: &Envelope{EventID: uuid.New(), EventType: of[:1], Payload: []byte("{}")}}
			if of[0] == '?' {
				r.envelope = nil
			}
			if of[1] != '-' {
				r.subject = of[1:]
			}
			rows = append(rows, r)
		}
		r := relayRun{relay: &Relay{config: RelayConfig{
			Ordered: test.ordered, Form: TypedMessage, Topic: func(e *Envelope) string { return e.EventType },
		}}, batch: newBatch(nil)}
		var calls []string
		for _, c := range r.plan(t.Context(), rows, func(row, error) {}) {
			text := c.topic + ":"
			for i, row := range c.rows {
				text += fmt.Sprintf(" %d", row.id)
				if c.messages[i].UUID != row.envelope.EventID.String() {
					t.Errorf("%s: message %s for event %s", test.rule, c.messages[i].UUID, row.envelope.EventID)
				}
			}
			calls = append(calls, text)
		}
		if got := strings.Join(calls, "|"); got != test.want {
			t.Errorf("%s: %s, want %s", test.rule, got, test.want)
		}
	}
}
