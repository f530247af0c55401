package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/rediswire"
	"github.com/watermill-envelope/envelope/transport/redispubsub"
)

// redisStream and redisChannel are a Redis by its address.
type (
	redisStream  string
	redisChannel string
)

func startRedis(channels bool) func(config) (next, func(), error) {
	return func(config) (next, func(), error) {
		srv, err := miniredis.Run()
		if err != nil {
			return nil, nil, err
		}
		if channels {
			return redisChannel(srv.Addr()), srv.Close, nil
		}
		return redisStream(srv.Addr()), srv.Close, nil
	}
}

func (n redisStream) publisher(_ string, log watermill.LoggerAdapter) (message.Publisher, marshaler.Sealer, error) {
	wire := rediswire.Marshaler{}
	pub, err := redisstream.NewPublisher(redisstream.PublisherConfig{
		Client: dial(string(n)), Marshaller: wire, DefaultMaxlen: keptByNext,
	}, log)
	return pub, wire, err
}

func (n redisChannel) publisher(string, watermill.LoggerAdapter) (message.Publisher, marshaler.Sealer, error) {
	wire, client := rediswire.PubSubMarshaler{}, dial(string(n))
	pub, err := redispubsub.NewPublisher(redispubsub.PublisherConfig{Client: client, Marshaler: wire})
	return closingToo{pub, sync.OnceValue(client.Close)}, wire, err
}

func dial(addr string) *redis.Client { return redis.NewClient(&redis.Options{Addr: addr}) }

// closingToo closes something together with a publisher.
type closingToo struct {
	message.Publisher
	then func() error
}

func (p closingToo) Close() error {
	if err := p.Publisher.Close(); err != nil {
		return err
	}
	return p.then()
}

type streamWitness struct {
	client       *redis.Client
	stream, last string // and the id of the last entry that was read
}

func (n redisStream) witness(_ context.Context, stream string) (witness, error) {
	return &streamWitness{dial(string(n)), stream, "0"}, nil
}

func (w *streamWitness) next(ctx context.Context) (delivery, error) {
	read, err := w.client.XRead(ctx, &redis.XReadArgs{Streams: []string{w.stream, w.last}, Count: 1, Block: 0}).Result()
	if err != nil {
		return delivery{}, waiting("Redis", err)
	}
	entry := read[0].Messages[0]
	w.last = entry.ID
	fields := make(map[string]string, len(entry.Values))
	for name, value := range entry.Values {
		fields[strings.TrimPrefix(name, "meta:")] = fmt.Sprint(value)
	}
	body := fields["payload"]
	delete(fields, "payload")
	return delivery{
		place: w.stream + "  entry " + entry.ID, body: []byte(body), attributes: fields,
		open: func() (*message.Message, error) { return rediswire.Marshaler{}.Unmarshal(entry.Values) },
	}, nil
}

func (*streamWitness) remove() error { return nil }

func (w *streamWitness) close() { _ = w.client.Close() }

type channelWitness struct {
	client *redis.Client
	sub    *redis.PubSub
}

func (n redisChannel) witness(ctx context.Context, channel string) (witness, error) {
	w := &channelWitness{client: dial(string(n))}
	w.sub = w.client.Subscribe(ctx, channel)
	if _, err := w.sub.Receive(ctx); err != nil { // the server's word that it is subscribed
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *channelWitness) next(ctx context.Context) (delivery, error) {
	msg, err := w.sub.ReceiveMessage(ctx)
	if err != nil {
		return delivery{}, waiting("Redis", err)
	}
	return delivery{
		place: msg.Channel, body: []byte(msg.Payload),
		open: func() (*message.Message, error) {
			return rediswire.PubSubMarshaler{}.Unmarshal(msg.Channel, []byte(msg.Payload))
		},
	}, nil
}

func (*channelWitness) remove() error { return nil }

func (w *channelWitness) close() {
	_ = w.sub.Close()
	_ = w.client.Close()
}
