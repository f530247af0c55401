package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/watermill-envelope/envelope/bus"
	hookmw "github.com/watermill-envelope/envelope/middleware"
	"github.com/watermill-envelope/envelope/outbox"
)

// OrderPlaced is the event in the outbox and the message that is made of it. A service in Rust
// has the same, as an Event and as a Message:
//
//	#[derive(Serialize, Deserialize)]
//	struct OrderPlaced { order: String, cents: i64 }
type OrderPlaced struct {
	Order string `json:"order"`
	Cents int64  `json:"cents"`
}

// EventType implements [outbox.Event].
func (OrderPlaced) EventType() string { return "orders.placed" }

// MessageType implements [bus.Message].
func (OrderPlaced) MessageType() string { return "orders.placed" }

// serve takes orders over HTTP, relays their events and bills them, until ctx ends.
func serve(ctx context.Context, out io.Writer, log *slog.Logger, db *database, address string) (err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	defer listener.Close()

	// Within one process an event is published when it was handled. A broker that keeps what it
	// was given would answer at once.
	channel := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	relay, err := db.outbox.Relay(db.DB, channel, outbox.RelayConfig{WorkerConfig: outbox.WorkerConfig{
		DispatchTimeout: 2 * time.Second, // what a killed process has taken waits so long: for a demonstration
		Logger:          log,
	}})
	if err != nil {
		return err
	}
	router, err := billing(out, db, channel)
	if err != nil {
		return err
	}

	work, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 3)
	go func() { ended <- router.Run(work) }()
	select {
	case <-router.Running():
	case err := <-ended:
		return err
	}
	go func() { ended <- relay.Run(work) }()
	server := &http.Server{Handler: endpoint(db), ReadHeaderTimeout: 5 * time.Second}
	go func() { ended <- server.Serve(listener) }()
	fmt.Fprintf(out, "shop     takes orders at http://%s/orders\n", listener.Addr())

	left := 3
	select {
	case <-ctx.Done():
	case err = <-ended: // on its own
		left--
	}
	// First no more orders, then no more work. Events that are left are relayed after the next start.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(grace))
	stop()
	for range left {
		if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	return errors.Join(err, channel.Close())
}

// billing handles each event once, however often it comes.
func billing(out io.Writer, db *database, sub message.Subscriber) (*message.Router, error) {
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	once, err := hookmw.NewDeduplicate(hookmw.DeduplicateConfig{Seen: db.inbox, Observer: absorbed{out}})
	if err != nil {
		return nil, err
	}
	router.AddMiddleware(once.Middleware)
	router.AddConsumerHandler("billing", bus.TypeOf[OrderPlaced](), sub, bus.TypedConsumer(
		func(ctx context.Context, o OrderPlaced, e *bus.Envelope) error {
			if err := db.bill(ctx, o); err != nil {
				return err
			}
			fmt.Fprintf(out, "billing  %s: %d cents, event %s\n", o.Order, o.Cents, e.MessageID.String()[24:])
			return nil
		}))
	return router, nil
}

// absorbed says which events came again.
type absorbed struct{ out io.Writer }

// DuplicateDropped implements [hookmw.DuplicateObserver].
func (a absorbed) DuplicateDropped(string) {
	fmt.Fprintln(a.out, "billing  an event came again, and the inbox kept it away")
}

// endpoint is POST /orders: 201 for a new order, 200 for one that is there.
func endpoint(db *database) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		var o OrderPlaced
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&o); err != nil || o.Order == "" || len(o.Order) > 64 {
			http.Error(w, `want {"order": "A-1", "cents": 1999}`, http.StatusBadRequest)
			return
		}
		switch placed, err := db.place(r.Context(), o); {
		case err != nil:
			http.Error(w, "the order was not taken; try again", http.StatusServiceUnavailable)
		case placed:
			w.WriteHeader(http.StatusCreated)
		}
	})
	return mux
}
