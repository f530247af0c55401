package bus_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
)

type orderPaid struct{}

func (*orderPaid) MessageType() string { return "orders.paid" }

func TestTypedHandler(t *testing.T) {
	var r recorder
	publisher := newPublisher(t, &r)
	failure := errors.New("the handler's own")
	h := bus.TypedHandler(func(ctx context.Context, m orderPlaced, e *bus.Envelope) ([]*message.Message, error) {
		if m != (orderPlaced{"o-1", 2}) || !reflect.DeepEqual(e, order()) || ctx.Value(contextKey{}) != "kept" {
			t.Errorf("%v, %v, headers %v", m, e, e.Headers)
		}
		if _, err := publisher.Publish(ctx, "orders", orderPlaced{}); err != nil {
			t.Error(err)
		}
		own := message.NewMessage("own", nil)
		middleware.SetCorrelationID("own", own)
		return []*message.Message{message.NewMessage("a", nil), {UUID: "no metadata"}, own}, failure
	})
	msg := order().Message()
	msg.SetContext(context.WithValue(context.Background(), contextKey{}, "kept"))
	produced, err := h(msg)
	if !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
	if chain := r.last(t).CorrelationID; chain != correlationID {
		t.Errorf("what was published belongs to %v", chain)
	}
	for i, want := range []string{correlationID.String(), correlationID.String(), "own"} {
		if got := produced[i].Metadata["correlation_id"]; got != want {
			t.Errorf("message %d belongs to %s, want %s", i, got, want)
		}
	}
	// And what publishes with the context of the message, such as the router's middleware.
	if id, ok := bus.CorrelationIDFrom(msg.Context()); !ok || id != correlationID {
		t.Errorf("the message's context belongs to %v", id)
	}
}

// What cannot be handled is refused for good, and no handler sees it.
func TestTypedHandlerRefuses(t *testing.T) {
	tests := map[string]struct {
		metadata message.Metadata
		payload  string
		want     error
	}{
		"no type":      {nil, `{}`, bus.ErrInvalidTopology},
		"malformed":    {message.Metadata{"hexeract_malformed": "missing_type"}, `{}`, bus.ErrInvalidTopology},
		"another type": {message.Metadata{"hexeract_type": "orders.paid"}, `{}`, bus.ErrTypeMismatch},
		"another case": {message.Metadata{"hexeract_type": "ORDERS.placed"}, `{}`, bus.ErrTypeMismatch},
		"no JSON":      {message.Metadata{"hexeract_type": "orders.placed"}, `{`, bus.ErrSerialization},
		"another JSON": {message.Metadata{"hexeract_type": "orders.placed"}, `{"quantity":"2"}`, bus.ErrSerialization},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			msg := message.NewMessage("m", []byte(tt.payload))
			maps.Copy(msg.Metadata, tt.metadata)
			produced, err := bus.TypedHandler(func(context.Context, orderPlaced, *bus.Envelope) ([]*message.Message, error) {
				t.Error("handled")
				return nil, nil
			})(msg)
			if !errors.Is(err, tt.want) || !envelope.IsPermanent(err) || produced != nil {
				t.Errorf("%v, error %v", produced, err)
			}
			err = bus.TypedConsumer(func(context.Context, *orderPlaced, *bus.Envelope) error {
				t.Error("handled")
				return nil
			})(msg)
			if !errors.Is(err, tt.want) || !envelope.IsPermanent(err) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestTypedConsumer(t *testing.T) {
	failure := errors.New("the handler's own")
	called := 0
	err := bus.TypedConsumer(func(_ context.Context, m *orderPlaced, e *bus.Envelope) error {
		called++
		if *m != (orderPlaced{"o-1", 2}) || e.MessageID != messageID {
			t.Errorf("%v %v", m, e)
		}
		return failure
	})(order().Message())
	if !errors.Is(err, failure) || called != 1 {
		t.Errorf("error %v, called %d times", err, called)
	}
}

func TestTypeOf(t *testing.T) {
	if got := bus.TypeOf[orderPlaced](); got != "orders.placed" {
		t.Error(got)
	}
	if got := bus.TypeOf[*orderPlaced](); got != "orders.placed" {
		t.Errorf("%s of a pointer, whose methods are the value's", got)
	}
	if got := bus.TypeOf[*orderPaid](); got != "orders.paid" {
		t.Error(got)
	}
}

func TestMux(t *testing.T) {
	var handled []string
	handler := func(name string) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			handled = append(handled, name)
			return []*message.Message{msg}, nil
		}
	}
	mux := bus.Mux{bus.TypeOf[orderPlaced](): handler("placed"), bus.TypeOf[*orderPaid](): handler("paid"), "nil": nil}
	for messageType, want := range map[string]error{
		"orders.placed": nil, "orders.paid": nil, "orders.lost": bus.ErrMissingHandler, "nil": bus.ErrMissingHandler, "": bus.ErrInvalidTopology,
	} {
		msg := message.NewMessage("m", nil)
		msg.Metadata["hexeract_type"] = messageType
		produced, err := mux.Handle(msg)
		if !errors.Is(err, want) || envelope.IsPermanent(err) != (want != nil) || len(produced) == 1 != (want == nil) {
			t.Errorf("%q: %v, error %v", messageType, produced, err)
		}
	}
	if len(handled) != 2 {
		t.Errorf("handled %v", handled)
	}
	var missing *bus.Error
	msg := message.NewMessage("m", nil)
	msg.Metadata["hexeract_type"] = "orders.lost"
	if _, err := bus.Mux(nil).Handle(msg); !errors.As(err, &missing) || missing.Actual != "orders.lost" {
		t.Errorf("error %v", err)
	}
}

func TestMuxConsume(t *testing.T) {
	failure := errors.New("the handler's own")
	mux := bus.Mux{
		"none": func(*message.Message) ([]*message.Message, error) { return nil, nil },
		"some": func(msg *message.Message) ([]*message.Message, error) { return []*message.Message{msg}, nil },
		"fail": func(msg *message.Message) ([]*message.Message, error) { return []*message.Message{msg}, failure },
	}
	for messageType, want := range map[string]error{
		"none": nil, "some": bus.ErrInternal, "fail": failure, "other": bus.ErrMissingHandler,
	} {
		msg := message.NewMessage("m", nil)
		msg.Metadata["hexeract_type"] = messageType
		if err := mux.Consume(msg); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", messageType, err, want)
		}
	}
}

// Watermill's own middleware hands the correlation id on.
func TestWatermillsCorrelationID(t *testing.T) {
	produced, err := middleware.CorrelationID(func(*message.Message) ([]*message.Message, error) {
		return []*message.Message{message.NewMessage("a", nil)}, nil
	})(order().Message())
	if err != nil || bus.CorrelationIDOf(produced[0]) != correlationID {
		t.Errorf("%v, error %v", produced, err)
	}
}

func ExampleTypedHandler() {
	handler := bus.TypedHandler(func(_ context.Context, m orderPlaced, e *bus.Envelope) ([]*message.Message, error) {
		fmt.Println(m.OrderID, m.Quantity, e.Headers["tenant"])
		next, err := bus.New(e.CorrelationID, &orderPaid{})
		if err != nil {
			return nil, err
		}
		return []*message.Message{next.Message()}, nil
	})
	produced, err := handler(order().Message()) // as a message.Router does
	fmt.Println(produced[0].Metadata["hexeract_type"], produced[0].Metadata["correlation_id"], err)
	// Output:
	// o-1 2 acme
	// orders.paid 0199a1c2-0000-7000-8000-00000000002a <nil>
}
