// Package natssuite holds the flows of NATS, embedded or real, by watermill-nats: JetStream by
// pkg/nats and by the subscriber of pkg/jetstream, and core NATS by pkg/nats.
package natssuite

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wmjs "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/jetstream"
	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/natswire"
)

// Options are how a broker differs. The zero value is our marshaler with the source "suite".
type Options struct {
	Marshaler wmnats.MarshalerUnmarshaler
	Logger    watermill.LoggerAdapter
	// MaxAckPending is how many messages of a consumer are on their way; 0 is 64. JetStream
	// counts AckWait for those too that wait in the client, so it must be few.
	MaxAckPending int
	// AckWait is how long a message is on its way before it is delivered again; 0 is 30 s.
	AckWait time.Duration
	// CloseTimeout is how long Close waits for messages that are being handled; 0 is 30 s.
	CloseTimeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.Marshaler == nil {
		o.Marshaler = natswire.Marshaler{Source: "suite"}
	}
	if o.Logger == nil {
		o.Logger = watermill.NopLogger{}
	}
	if o.MaxAckPending == 0 {
		o.MaxAckPending = 64
	}
	if o.AckWait == 0 {
		o.AckWait = 30 * time.Second
	}
	if o.CloseTimeout == 0 {
		o.CloseTimeout = 30 * time.Second
	}
	return o
}

// connect returns a connection that outlives outages. Whoever it is given to closes it.
func connect(t testing.TB, addr string) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect("nats://"+addr, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// JetStream returns a broker on streams, one for each topic that no stream has yet, which are
// kept in files. Groups are durable consumers; without a group a subscriber reads everything.
func JetStream(addr string, o Options) suite.Broker {
	o = o.withDefaults()
	sealer, _ := o.Marshaler.(marshaler.Sealer)
	return suite.Broker{
		Name: "nats-jetstream", Sealer: sealer,
		NewPublisher: func(t testing.TB) message.Publisher {
			t.Helper()
			conn := connect(t, addr)
			pub, err := wmnats.NewPublisherWithNatsConn(conn, wmnats.PublisherPublishConfig{
				Marshaler: o.Marshaler, SubjectCalculator: wmnats.DefaultSubjectCalculator,
				JetStream: wmnats.JetStreamConfig{ConnectOptions: []nats.JSOpt{publishWait}},
			}, o.Logger)
			if err != nil {
				t.Fatal(err)
			}
			return &publisher{Publisher: pub, streams: newStreams(t, conn)}
		},
		NewSubscriber: func(t testing.TB, group string) message.Subscriber {
			t.Helper()
			conn := connect(t, addr)
			c := wmnats.JetStreamConfig{SubscribeOptions: []nats.SubOpt{
				nats.ManualAck(), // or the client acknowledges what the subscriber gives up
				nats.DeliverAll(), nats.AckExplicit(), nats.MaxAckPending(o.MaxAckPending), nats.AckWait(o.AckWait),
			}}
			if group != "" {
				c.DurablePrefix, c.DurableCalculator = group, durable
			}
			sub, err := wmnats.NewSubscriberWithNatsConn(conn, wmnats.SubscriberSubscriptionConfig{
				Unmarshaler: o.Marshaler, QueueGroupPrefix: group, JetStream: c,
				AckWaitTimeout: o.AckWait, CloseTimeout: o.CloseTimeout,
			}, o.Logger)
			if err != nil {
				t.Fatal(err)
			}
			return &subscriber{Subscriber: sub, streams: newStreams(t, conn), group: group, options: o}
		},
	}
}

// publishWait is how long a publish waits for its acknowledgement.
const publishWait = nats.MaxWait(2 * time.Second)

// Pull returns [JetStream] with the subscriber of pkg/jetstream. That one panics when it is
// closed, or a context ends, while messages come: read everything first.
func Pull(addr string, o Options) suite.Broker {
	b := JetStream(addr, o)
	o = o.withDefaults()
	b.Name = "nats-pull"
	b.NewSubscriber = func(t testing.TB, group string) message.Subscriber {
		t.Helper()
		conn := connect(t, addr)
		s := newStreams(t, conn)
		sub, err := wmjs.NewSubscriber(wmjs.SubscriberConfig{
			Conn: conn, Logger: o.Logger, AckWaitTimeout: o.AckWait,
			Unmarshaler: natswire.JetStreamUnmarshaler{},
			ResourceInitializer: func(ctx context.Context, js jetstream.JetStream, topic string) (jetstream.Consumer, func(context.Context, watermill.LoggerAdapter), error) {
				stream, err := s.ensure(topic)
				if err != nil {
					return nil, nil, err
				}
				c, err := js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
					Durable: durable(group, topic), FilterSubject: topic,
					AckPolicy: jetstream.AckExplicitPolicy, AckWait: o.AckWait, MaxAckPending: o.MaxAckPending,
				})
				return c, nil, err
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		// Its SubscribeInitialize wants to name the stream as the topic, which may have dots.
		return struct{ message.Subscriber }{sub}
	}
	return b
}

// Core returns a broker on core NATS. It keeps nothing: subscribe before publishing. Of a group
// one member gets a message.
func Core(addr string, o Options) suite.Broker {
	o = o.withDefaults()
	sealer, _ := o.Marshaler.(marshaler.Sealer)
	disabled := wmnats.JetStreamConfig{Disabled: true}
	return suite.Broker{
		Name: "nats-core", Sealer: sealer,
		NewPublisher: func(t testing.TB) message.Publisher {
			t.Helper()
			pub, err := wmnats.NewPublisherWithNatsConn(connect(t, addr), wmnats.PublisherPublishConfig{
				Marshaler: o.Marshaler, JetStream: disabled,
			}, o.Logger)
			if err != nil {
				t.Fatal(err)
			}
			return pub
		},
		NewSubscriber: func(t testing.TB, group string) message.Subscriber {
			t.Helper()
			conn := connect(t, addr)
			sub, err := wmnats.NewSubscriberWithNatsConn(conn, wmnats.SubscriberSubscriptionConfig{
				Unmarshaler: o.Marshaler, QueueGroupPrefix: group, JetStream: disabled,
				AckWaitTimeout: o.AckWait, CloseTimeout: o.CloseTimeout,
			}, o.Logger)
			if err != nil {
				t.Fatal(err)
			}
			return &coreSubscriber{sub: sub, conn: conn}
		},
	}
}

// A coreSubscriber has no SubscribeInitialize, which panics without JetStream, and is
// subscribed when Subscribe returns.
type coreSubscriber struct {
	sub  *wmnats.Subscriber
	conn *nats.Conn
}

func (s *coreSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	ch, err := s.sub.Subscribe(ctx, topic)
	if err != nil {
		return nil, err
	}
	return ch, s.conn.FlushTimeout(suite.Timeout) // the server knows
}

func (s *coreSubscriber) Close() error { return s.sub.Close() }

// A publisher makes the streams of what it publishes.
type publisher struct {
	message.Publisher
	streams *streams
	known   sync.Map // topics
}

func (p *publisher) Publish(topic string, messages ...*message.Message) error {
	if _, ok := p.known.Load(topic); !ok {
		if _, err := p.streams.ensure(topic); err != nil {
			return err
		}
		p.known.Store(topic, true)
	}
	return p.Publisher.Publish(topic, messages...)
}

// A subscriber makes the stream of a topic, and the consumer of a group: one that the client
// makes is deleted when its maker unsubscribes, with its place in the stream.
type subscriber struct {
	*wmnats.Subscriber
	streams *streams
	group   string
	options Options
}

func (s *subscriber) SubscribeInitialize(topic string) error {
	_, err := s.streams.ensure(topic)
	return err
}

func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	stream, err := s.streams.ensure(topic)
	if err != nil {
		return nil, err
	}
	if s.group != "" {
		if err := s.streams.consumer(stream, s.group, topic, s.options); err != nil {
			return nil, err
		}
	}
	return s.Subscriber.Subscribe(ctx, topic)
}
