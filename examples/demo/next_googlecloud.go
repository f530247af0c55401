package main

import (
	"context"
	"errors"
	"maps"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/pstest"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-googlecloud/v2/pkg/googlecloud"
	"github.com/ThreeDotsLabs/watermill/message"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/watermill-envelope/envelope/marshaler"
)

// googleNext is a server of Google Pub/Sub, by its address. Its publisher is wrapped.
type googleNext string

const googleProject = "demo"

func startGoogle(config) (next, func(), error) {
	server := pstest.NewServer()
	return googleNext(server.Addr), func() { _ = server.Close() }, nil
}

func (n googleNext) options() []option.ClientOption {
	return []option.ClientOption{
		option.WithEndpoint(string(n)), option.WithoutAuthentication(), option.WithTelemetryDisabled(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}
}

func (n googleNext) publisher(_ string, log watermill.LoggerAdapter) (message.Publisher, marshaler.Sealer, error) {
	topics, err := googlecloud.NewPublisher(googlecloud.PublisherConfig{ProjectID: googleProject, ClientOptions: n.options()}, log)
	if err != nil {
		return nil, nil, err
	}
	pub, err := marshaler.WrapPublisher(topics, marshaler.Options{})
	return pub, nil, err // it seals itself
}

// subscriber is Watermill's, with a subscription of this name.
func (n googleNext) subscriber(name string) (*googlecloud.Subscriber, error) {
	return googlecloud.NewSubscriber(googlecloud.SubscriberConfig{
		ProjectID: googleProject, ClientOptions: n.options(),
		GenerateSubscriptionName: func(string) string { return name },
	}, watermill.NopLogger{})
}

// A googleWitness has two subscriptions: one to read what stands in Pub/Sub with its own client,
// and one that is the next service's.
type googleWitness struct {
	raw    chan *pubsub.Message
	opened <-chan *message.Message
	end    func() error
}

func (n googleNext) witness(ctx context.Context, topic string) (_ witness, err error) {
	w := &googleWitness{raw: make(chan *pubsub.Message)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	closers := []func() error{func() error { cancel(); return nil }}
	w.end = func() (err error) {
		for _, c := range closers {
			err = errors.Join(err, c())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.end())
		}
	}()
	first, err := n.subscriber("witness")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(first.SubscribeInitialize(topic), first.Close()); err != nil { // that it is there
		return nil, err
	}
	client, err := pubsub.NewClient(ctx, googleProject, n.options()...)
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	closers = append(closers, func() error { return errors.Join(<-done, client.Close()) })
	go func() {
		done <- client.Subscriber("witness").Receive(ctx, func(ctx context.Context, msg *pubsub.Message) {
			select {
			case w.raw <- msg:
				msg.Ack()
			case <-ctx.Done():
				msg.Nack()
			}
		})
	}()
	second, err := n.subscriber("next")
	if err != nil {
		return nil, err
	}
	sub, err := marshaler.WrapSubscriber(second, marshaler.Options{})
	if err != nil {
		return nil, err
	}
	closers = append(closers, sub.Close)
	w.opened, err = sub.Subscribe(ctx, topic)
	return w, err
}

func (w *googleWitness) next(ctx context.Context) (delivery, error) {
	var raw *pubsub.Message
	select {
	case raw = <-w.raw:
	case <-ctx.Done():
		return delivery{}, waiting("Pub/Sub", ctx.Err())
	}
	select {
	case opened, ok := <-w.opened:
		if !ok {
			return delivery{}, waiting("Pub/Sub", context.Canceled)
		}
		opened.Ack()
		attributes := maps.Clone(raw.Attributes)
		id := attributes[googlecloud.UUIDHeaderKey] // Watermill's own, around what is wrapped
		delete(attributes, googlecloud.UUIDHeaderKey)
		return delivery{
			place: "message " + raw.ID + "  " + googlecloud.UUIDHeaderKey + " " + id, id: id, body: raw.Data, attributes: attributes,
			open: func() (*message.Message, error) { return opened, nil },
		}, nil
	case <-ctx.Done():
		return delivery{}, waiting("Pub/Sub", ctx.Err())
	}
}

func (*googleWitness) remove() error { return nil }

func (w *googleWitness) close() { _ = w.end() }
