package rabbitmq

import (
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/bus/amqpwire"
)

// Attempts behind a message, by either count.
func TestAttempts(t *testing.T) {
	deaths := func(queue, reason, count any) amqp.Table {
		return amqp.Table{"queue": queue, "reason": reason, "count": count}
	}
	for _, tt := range []struct {
		rule    string
		headers amqp.Table
		want    int64
	}{
		{"no headers", nil, 0},
		{"ours", amqp.Table{amqpwire.HeaderAttempts: int64(2)}, 2},
		{"ours as each integer of AMQP: b", amqp.Table{amqpwire.HeaderAttempts: int8(2)}, 2},
		{"B", amqp.Table{amqpwire.HeaderAttempts: byte(2)}, 2},
		{"s", amqp.Table{amqpwire.HeaderAttempts: int16(2)}, 2},
		{"u", amqp.Table{amqpwire.HeaderAttempts: uint16(2)}, 2},
		{"I", amqp.Table{amqpwire.HeaderAttempts: int32(2)}, 2},
		{"i", amqp.Table{amqpwire.HeaderAttempts: uint32(2)}, 2},
		{"ours as text", amqp.Table{amqpwire.HeaderAttempts: "2"}, 0},
		{"ours as a float", amqp.Table{amqpwire.HeaderAttempts: 2.0}, 0},
		{"ours below zero", amqp.Table{amqpwire.HeaderAttempts: int64(-1)}, 0},
		{"ours over 32 bits", amqp.Table{amqpwire.HeaderAttempts: int64(1) << 62}, 1<<32 - 1},
		{"the broker's", amqp.Table{"x-death": []any{deaths("q.retry", "expired", int64(3))}}, 3},
		{"the larger one", amqp.Table{"x-death": []any{deaths("q.retry", "expired", int64(3))}, amqpwire.HeaderAttempts: int64(2)}, 3},
		{"of several deaths the one in the retry queue", amqp.Table{"x-death": []any{
			deaths("q", "rejected", int64(7)), deaths("q.retry", "rejected", int64(8)), deaths("q.retry", "expired", int64(3)),
		}}, 3},
		{"the first of those", amqp.Table{"x-death": []any{
			deaths("q.retry", "expired", int64(3)), deaths("q.retry", "expired", int64(4)),
		}}, 3},
		{"one without a count of 64 bits is none", amqp.Table{"x-death": []any{
			deaths("q.retry", "expired", int32(9)), deaths("q.retry", "expired", int64(4)),
		}}, 4},
		{"names are of no other type", amqp.Table{"x-death": []any{deaths([]byte("q.retry"), "expired", int64(3))}}, 0},
		{"a count below zero", amqp.Table{"x-death": []any{deaths("q.retry", "expired", int64(-3))}}, 0},
		{"a count over 32 bits", amqp.Table{"x-death": []any{deaths("q.retry", "expired", int64(1)<<62)}}, 1<<32 - 1},
		{"no list", amqp.Table{"x-death": deaths("q.retry", "expired", int64(3))}, 0},
		{"a list of other things", amqp.Table{"x-death": []any{nil, "expired", []any{}}}, 0},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			if got := attempts(tt.headers, retryQueue("q")); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}

// Whatever a delivery holds, its copies can be sent: they have no name, property or time that
// the publisher itself would refuse, and nothing that they share with it is changed.
func FuzzCopies(f *testing.F) {
	f.Add("orders.placed", "m", "name", "value", int64(1_700_000_000), int64(1), "60000")
	f.Add("\xff", "\xff", "\xff", "\xff", int64(-1)<<63, int64(-1), "\xff")
	f.Add(strings.Repeat("\xff", 255), strings.Repeat("é", 127), strings.Repeat("a\xff", 127), "", int64(-1), int64(1)<<62, "")
	f.Fuzz(func(t *testing.T, messageType, id, name, value string, seconds, count int64, expiration string) {
		if max(len(messageType), len(id), len(name), len(expiration)) > 255 {
			return // not on this wire
		}
		d := amqp.Delivery{
			Type: messageType, MessageId: id, CorrelationId: id, ReplyTo: name, AppId: name, UserId: id, ContentType: value[:min(len(value), 255)],
			ContentEncoding: name, Expiration: expiration, Timestamp: time.Unix(seconds, 0), Body: []byte(value),
			Headers: amqp.Table{name: value, "list": []any{amqp.Table{name: count}}, amqpwire.HeaderAttempts: count},
		}
		before := len(d.Headers)
		n := attempts(d.Headers, "q.retry")
		if n < 0 {
			t.Fatalf("%d attempts", n)
		}
		for _, p := range []amqp.Publishing{retryCopy(d, n+1), deadCopy(d, n+1)} {
			if err := check("q.retry", &p); err != nil {
				t.Errorf("a copy is refused: %v", err)
			}
			if !p.Timestamp.IsZero() && p.Timestamp.Unix() < 0 {
				t.Errorf("a copy is of %v", p.Timestamp)
			}
			if string(p.Body) != value || p.DeliveryMode != amqp.Persistent {
				t.Errorf("a copy has body %q and delivery mode %d", p.Body, p.DeliveryMode)
			}
			if got := attempts(p.Headers, "q.retry"); got != min(n+1, maxAttempts) {
				t.Errorf("a copy counts %d after %d", got, n)
			}
		}
		if len(d.Headers) != before || d.Headers[amqpwire.HeaderAttempts] != any(count) && name != amqpwire.HeaderAttempts {
			t.Error("the delivery was changed")
		}
	})
}
