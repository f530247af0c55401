package bus_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/internal/sidebyside"
)

// basket is a message as services have them: a few fields, a list, some free text.
type basket struct {
	OrderID    uuid.UUID `json:"order_id"`
	CustomerID uuid.UUID `json:"customer_id"`
	Currency   string    `json:"currency"`
	Note       string    `json:"note"`
	Lines      []line    `json:"lines"`
}

type line struct {
	SKU      string `json:"sku"`
	Title    string `json:"title"`
	Quantity int    `json:"quantity"`
	Cents    int64  `json:"cents"`
	Gift     bool   `json:"gift"`
}

func (basket) MessageType() string { return "orders.basket" }

func basketOf(lines int) basket {
	b := basket{OrderID: messageID, CustomerID: correlationID, Currency: "EUR", Note: "Bitte bei Müller abgeben \"Hinterhaus\""}
	for i := range lines {
		b.Lines = append(b.Lines, line{fmt.Sprintf("sku-%d", i), "A title of some forty bytes, as they have", i, int64(i) * 995, i%3 == 0})
	}
	return b
}

// BenchmarkSideBySide sets Decode with all its checks beside json.Unmarshal, and New beside
// json.Marshal. To reach: decode at most 1.2 times json.
func BenchmarkSideBySide(b *testing.B) {
	for name, m := range map[string]bus.Message{
		"small": orderPlaced{"o-1", 2}, "4KiB": basketOf(40), "64KiB": basketOf(640), "text=64KiB": text(strings.Repeat("some text, ", 6<<10)),
	} {
		e, err := bus.New(correlationID, m)
		if err != nil {
			b.Fatal(err)
		}
		batch := max(1, (64<<10)/len(e.Payload)/8)
		b.Run("decode/"+name, func(b *testing.B) {
			sidebyside.Run(b, []sidebyside.Way{
				{Name: "ours", F: func() error { return decodeAs(m, e) }},
				{Name: "json", F: func() error { return unmarshalAs(m, e) }},
			}, batch)
		})
		b.Run("encode/"+name, func(b *testing.B) {
			sidebyside.Run(b, []sidebyside.Way{
				{Name: "ours", F: func() error { _, err := bus.New(correlationID, m); return err }},
				{Name: "json", F: func() error { _, err := json.Marshal(m); return err }},
			}, batch)
		})
	}
}

func decodeAs(m bus.Message, e *bus.Envelope) (err error) {
	switch m.(type) {
	case orderPlaced:
		_, err = bus.Decode[orderPlaced](e)
	case basket:
		_, err = bus.Decode[basket](e)
	default:
		_, err = bus.Decode[text](e)
	}
	return err
}

func unmarshalAs(m bus.Message, e *bus.Envelope) error {
	switch m.(type) {
	case orderPlaced:
		return json.Unmarshal(e.Payload, new(orderPlaced))
	case basket:
		return json.Unmarshal(e.Payload, new(basket))
	}
	return json.Unmarshal(e.Payload, new(text))
}
