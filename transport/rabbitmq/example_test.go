package rabbitmq_test

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// An address can be logged, and whatever it is a part of can be printed.
func ExampleURI() {
	c := rabbitmq.PublisherConfig{URI: "amqp://orders:secret@broker:5672/shop", Exchange: "hooks"}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	log.Info("starting", "broker", c.URI)
	fmt.Println(c.URI, c.Exchange)
	fmt.Println(string(c.URI) == "amqp://orders:secret@broker:5672/shop")
	// Output:
	// level=INFO msg=starting broker=amqp://***@broker:5672/shop
	// amqp://***@broker:5672/shop hooks
	// true
}

// All mistakes of a topology are reported at once, before a broker is asked.
func ExampleTopology_Validate() {
	fmt.Println(rabbitmq.Topology{
		Exchanges: []rabbitmq.Exchange{{Name: "shop", Kind: "topics"}},
		Queues:    []rabbitmq.Queue{{Name: "billing"}, {}},
	}.Validate())
	// Output:
	// exchanges[0] "shop": bus: invalid_topology: exchange kind: "topics" is none of direct, topic, fanout and headers
	// queues[1] "": bus: invalid_topology: queue name: empty
}
