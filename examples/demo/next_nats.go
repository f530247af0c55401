package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/natswire"
)

// natsNext is the URL of a NATS with JetStream.
type natsNext string

func startNATS(config) (next, func(), error) {
	dir, err := os.MkdirTemp("", "envelope-demo-")
	if err != nil {
		return nil, nil, err
	}
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	srv.Start()
	stop := func() {
		srv.Shutdown()
		srv.WaitForShutdown()
		_ = os.RemoveAll(dir)
	}
	if !srv.ReadyForConnections(10 * time.Second) {
		stop()
		return nil, nil, errors.New("the embedded NATS did not start")
	}
	return natsNext(srv.ClientURL()), stop, nil
}

func (n natsNext) publisher(topic string, log watermill.LoggerAdapter) (message.Publisher, marshaler.Sealer, error) {
	conn, err := natsgo.Connect(string(n))
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	js, err := conn.JetStream()
	if err != nil {
		return nil, nil, err
	}
	stream := &natsgo.StreamConfig{Name: topic, Subjects: []string{topic}, MaxMsgs: keptByNext}
	if _, err := js.AddStream(stream); err != nil {
		return nil, nil, err
	}
	wire := natswire.Marshaler{}
	pub, err := nats.NewPublisher(nats.PublisherConfig{URL: string(n), Marshaler: wire}, log)
	return pub, wire, err
}

// keptByNext is how many hooks stay on an embedded server, where nobody needs them.
const keptByNext = 1000

type natsWitness struct {
	conn *natsgo.Conn
	sub  *natsgo.Subscription
}

func (n natsNext) witness(_ context.Context, subject string) (witness, error) {
	conn, err := natsgo.Connect(string(n))
	if err != nil {
		return nil, err
	}
	sub, err := conn.SubscribeSync(subject)
	if err == nil {
		err = conn.Flush()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &natsWitness{conn, sub}, nil
}

func (w *natsWitness) next(ctx context.Context) (delivery, error) {
	msg, err := w.sub.NextMsgWithContext(ctx)
	if err != nil {
		return delivery{}, waiting("NATS", err)
	}
	headers := make(map[string]string, len(msg.Header))
	for name := range msg.Header {
		headers[name] = msg.Header.Get(name)
	}
	unique := headers[natsgo.MsgIdHdr] // for the stream: the id, and what it was received as
	delete(headers, natsgo.MsgIdHdr)
	id, _, _ := strings.Cut(unique, ":")
	return delivery{
		place: msg.Subject + "  " + natsgo.MsgIdHdr + " " + unique, id: id, body: msg.Data, attributes: headers,
		open: func() (*message.Message, error) { return natswire.Marshaler{}.Unmarshal(msg) },
	}, nil
}

func (*natsWitness) remove() error { return nil }

func (w *natsWitness) close() { w.conn.Close() }
