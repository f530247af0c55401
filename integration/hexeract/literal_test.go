package hexeract

import (
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

// declare makes a durable queue that no other test uses and returns its name.
func declare(t *testing.T, channel *amqp.Channel) string {
	t.Helper()
	name := "orders." + uuid.NewString()[:8]
	if _, err := channel.QueueDeclare(name, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	return name
}

func order(note string) *OrderPlaced {
	coupon := "10 % off <today> & tomorrow"
	return &OrderPlaced{
		OrderID: uuid.MustParse("0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10"),
		Note:    note,
		Cents:   -9007199254740993, // no float64 holds it
		Weight:  0.1,
		Lines:   []Line{{"ä\u2028\"\\\u0001🙂", 4294967295}},
		Tags:    map[string]string{"b": "2", "a": ""},
		Coupon:  &coupon,
	}
}

// orderJSON is order(note) as both sides write it.
func orderJSON(note string) string {
	return `{"order_id":"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10","note":` + strconv.Quote(note) +
		`,"cents":-9007199254740993,"weight":0.1,"lines":[{"sku":"ä` + "\u2028" + `\"\\\u0001🙂","quantity":4294967295}],` +
		`"tags":{"a":"","b":"2"},"coupon":"10 % off <today> & tomorrow"}`
}

// What the crates put on the wire, property by property: the facts that package bus rests on.
func TestPropertiesOfHexeract(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		channel := suite.AMQPChannel(t, url)
		queue := declare(t, channel)
		peer := Start(t, url)
		correlation := uuid.New()
		rawID := uuid.MustParse("00000000-0000-0000-0000-000000000007")
		cases := []struct {
			name    string
			publish Publish
			headers amqp.Table
			check   func(d amqp.Delivery, id string) bool
			body    string
		}{
			{
				"plain",
				Publish{Message: order("plain")},
				amqp.Table{},
				func(d amqp.Delivery, id string) bool { return d.CorrelationId != id }, orderJSON("plain"),
			},
			{
				"headers",
				Publish{Message: order("headers"), Headers: map[string]string{"tenant": "acme", "empty": ""}},
				amqp.Table{"tenant": "acme", "empty": ""},
				func(d amqp.Delivery, id string) bool { return d.CorrelationId != id }, orderJSON("headers"),
			},
			{
				"correlation",
				Publish{Message: order("correlation"), CorrelationID: &correlation},
				amqp.Table{},
				func(d amqp.Delivery, _ string) bool { return d.CorrelationId == correlation.String() }, orderJSON("correlation"),
			},
			{
				"raw",
				Publish{Raw: &Raw{rawID, "orders.placed", "not JSON"}},
				amqp.Table{},
				func(d amqp.Delivery, id string) bool { return id == rawID.String() && d.CorrelationId == id }, "not JSON",
			},
		}
		before := time.Now().Add(-time.Second)
		ids := make([]string, len(cases))
		for i, c := range cases {
			c.publish.RoutingKey = queue
			id, refusal := peer.Publish(t, c.publish)
			if refusal != nil {
				t.Fatal(c.name, refusal)
			}
			ids[i] = id.String()
		}
		for i, d := range suite.AMQPDeliveries(suite.Context(t), t, channel, queue, len(cases)) {
			c, id := cases[i], ids[i]
			switch {
			case d.MessageId != id, d.Type != "orders.placed", d.ContentType != "application/json",
				d.DeliveryMode != amqp.Persistent, d.Timestamp.Before(before), d.Timestamp.After(time.Now()),
				d.ReplyTo != "", d.Expiration != "", d.Priority != 0, d.AppId != "", d.UserId != "", d.ContentEncoding != "":
				t.Errorf("%s: %+v", c.name, d)
			case !reflect.DeepEqual(d.Headers, c.headers) && len(d.Headers)+len(c.headers) > 0:
				t.Errorf("%s: headers %v, want %v", c.name, d.Headers, c.headers)
			case !c.check(d, id):
				t.Errorf("%s: message id %s, correlation id %s", c.name, id, d.CorrelationId)
			case string(d.Body) != c.body:
				t.Errorf("%s: body %s, want %s", c.name, d.Body, c.body)
			}
		}
		if _, refusal := peer.Publish(t, Publish{RoutingKey: queue + ".missing", Message: order("")}); refusal == nil || refusal.Name != "Unroutable" {
			t.Errorf("publish to a queue that does not exist: %+v, want Unroutable", refusal)
		}
	})
}
