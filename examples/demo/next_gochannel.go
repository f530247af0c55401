package main

import (
	"context"
	"maps"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/watermill-envelope/envelope/marshaler"
)

// channelNext is Watermill's transport in memory, and stands for each that is wrapped.
type channelNext struct{ *gochannel.GoChannel }

func startGoChannel(config) (next, func(), error) {
	c := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 16}, watermill.NopLogger{})
	return channelNext{c}, func() { _ = c.Close() }, nil
}

func (n channelNext) publisher(string, watermill.LoggerAdapter) (message.Publisher, marshaler.Sealer, error) {
	pub, err := marshaler.WrapPublisher(n.GoChannel, marshaler.Options{})
	return pub, nil, err // it seals itself
}

// A goWitness subscribes twice: to what stands on the channel, and as the next service does.
type goWitness struct {
	topic       string
	raw, opened <-chan *message.Message
	cancel      context.CancelFunc
}

func (n channelNext) witness(ctx context.Context, topic string) (witness, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &goWitness{topic: topic, cancel: cancel}
	sub, err := marshaler.WrapSubscriber(n.GoChannel, marshaler.Options{})
	if err == nil {
		w.raw, err = n.Subscribe(ctx, topic)
	}
	if err == nil {
		w.opened, err = sub.Subscribe(ctx, topic)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return w, nil
}

func (w *goWitness) next(ctx context.Context) (delivery, error) {
	var both [2]*message.Message
	for i, from := range []<-chan *message.Message{w.raw, w.opened} {
		select {
		case msg, ok := <-from:
			if !ok {
				return delivery{}, waiting("GoChannel", context.Canceled)
			}
			msg.Ack()
			both[i] = msg
		case <-ctx.Done():
			return delivery{}, waiting("GoChannel", ctx.Err())
		}
	}
	raw, opened := both[0], both[1]
	return delivery{
		place: w.topic + "  UUID " + raw.UUID, id: raw.UUID, body: raw.Payload, attributes: maps.Clone(raw.Metadata),
		open: func() (*message.Message, error) { return opened, nil },
	}, nil
}

func (*goWitness) remove() error { return nil }

func (w *goWitness) close() { w.cancel() }
