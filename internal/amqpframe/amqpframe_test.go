package amqpframe_test

import (
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/internal/amqpframe"
	"github.com/watermill-envelope/envelope/internal/amqptest"
)

// What is counted is what the client writes, of every property and every type of a field.
func TestContentHeader(t *testing.T) {
	kinds := amqp.Table{
		"bool": true, "byte": byte(1), "int8": int8(-1), "int16": int16(-1), "uint16": uint16(1), "int": -1, "int32": int32(-1),
		"uint32": uint32(1), "int64": int64(-1), "float32": float32(1), "float64": 1.5, "decimal": amqp.Decimal{Scale: 1, Value: 2},
		"string": "größe", "bytes": []byte("123"), "nil": nil, "time": time.Unix(1, 0), "": "",
	}
	nested := amqp.Table{"table": kinds, "array": []any{"a", int64(1), amqp.Table{}, []any{}, []any{nil, kinds}}, "empty": amqp.Table{}}
	tests := map[string]amqp.Publishing{
		"nothing":        {},
		"an empty table": {Headers: amqp.Table{}},
		"every property": {
			ContentType: "a", ContentEncoding: "bc", DeliveryMode: 2, Priority: 3, CorrelationId: "def", ReplyTo: "ghij", Expiration: "60000",
			MessageId: strings.Repeat("m", 255), Timestamp: time.Unix(0, 0), Type: "t", UserId: "guest", AppId: "app",
		},
		"every kind": {Headers: kinds},
		"nested":     {Headers: nested, Type: "t"},
	}
	r := amqptest.NewRecorder(t)
	for name, p := range tests {
		t.Run(name, func(t *testing.T) {
			if got, sent := amqpframe.ContentHeader(&p), r.Publish(t, p); got != int64(len(sent)) {
				t.Errorf("%d bytes, the client sends %d", got, len(sent))
			}
		})
	}
}

func TestHeadersOfTheBroker(t *testing.T) {
	for name, want := range map[string][2]bool{ // owned, routes
		"x-death": {true, false}, "x-delivery-count": {true, false}, "x-acquired-count": {true, false}, "x-stream-offset": {true, false},
		"x-first-death-queue": {true, false}, "x-first-death-reason": {true, false}, "x-last-death-exchange": {true, false},
		"CC": {false, true}, "BCC": {false, true}, "cc": {false, false}, "x-hexeract-request-id": {false, false}, "x-deaths": {false, false},
		"X-Death": {false, false}, "": {false, false}, "first-death-queue": {false, false},
	} {
		if got := [2]bool{amqpframe.BrokerOwned(name), amqpframe.Routes(name)}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
