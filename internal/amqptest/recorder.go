// Package amqptest shows tests the bytes that github.com/rabbitmq/amqp091-go writes, and what it
// reads from bytes.
package amqptest

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A Recorder is a channel to a server that answers the handshake and keeps the content
// headers that it is sent.
type Recorder struct {
	channel *amqp.Channel
	headers chan []byte
	server  net.Conn
}

// NewRecorder returns a Recorder that is closed when the test ends.
func NewRecorder(t testing.TB) *Recorder {
	t.Helper()
	client, server := net.Pipe()
	r := &Recorder{headers: make(chan []byte, 1), server: server}
	served := make(chan error, 1)
	go func() { served <- r.serve() }()
	conn, err := amqp.Open(client, amqp.Config{
		Heartbeat: 0, FrameSize: 0, Locale: "en_US",
		SASL: []amqp.Authentication{&amqp.PlainAuth{Username: "guest", Password: "guest"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.channel, err = conn.Channel(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Close()
		_ = conn.Close()
		if err := <-served; err != nil && !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
	return r
}

const (
	frameMethod, frameHeader, frameBody = 1, 2, 3
	frameEnd                            = 0xce
)

// frame sends one frame.
func (r *Recorder) frame(kind byte, channel uint16, payload string) error {
	frame := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(payload)))
	frame = append(append(frame, payload...), frameEnd)
	_, err := r.server.Write(frame)
	return err
}

func (r *Recorder) method(channel, class, method uint16, arguments string) error {
	payload := binary.BigEndian.AppendUint16(nil, class)
	payload = binary.BigEndian.AppendUint16(payload, method)
	return r.frame(frameMethod, channel, string(payload)+arguments)
}

func (r *Recorder) serve() error {
	if _, err := io.ReadFull(r.server, make([]byte, len("AMQP\x00\x00\x09\x01"))); err != nil {
		return err
	}
	const start = "\x00\x09" + "\x00\x00\x00\x00" + "\x00\x00\x00\x05PLAIN" + "\x00\x00\x00\x05en_US"
	if err := r.method(0, 10, 10, start); err != nil {
		return err
	}
	for {
		var head [7]byte
		if _, err := io.ReadFull(r.server, head[:]); err != nil {
			return err
		}
		channel := binary.BigEndian.Uint16(head[1:])
		payload := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
		if _, err := io.ReadFull(r.server, payload); err != nil {
			return err
		}
		payload = payload[:len(payload)-1]
		if head[0] == frameHeader {
			r.headers <- payload
		}
		if head[0] != frameMethod {
			continue
		}
		var err error
		switch method := binary.BigEndian.Uint32(payload); method {
		case 10<<16 | 11: // connection.start-ok: tune
			err = r.method(0, 10, 30, "\x00\x00"+"\x00\x02\x00\x00"+"\x00\x00")
		case 10<<16 | 40: // connection.open
			err = r.method(0, 10, 41, "\x00")
		case 20<<16 | 10: // channel.open
			err = r.method(channel, 20, 11, "\x00\x00\x00\x00")
		case 60<<16 | 20: // basic.consume
			err = r.method(channel, 60, 21, "\x01c")
		case 10<<16 | 50: // connection.close
			err = r.method(0, 10, 51, "")
		}
		if err != nil {
			return err
		}
	}
}

// Publish returns the content header of p as the client writes it.
func (r *Recorder) Publish(t testing.TB, p amqp.Publishing) []byte {
	t.Helper()
	if err := r.channel.PublishWithContext(context.Background(), "hooks", "key", false, false, p); err != nil {
		t.Fatal(err)
	}
	return <-r.headers
}

// Deliver returns the delivery that the client reads from this content header and body, in a
// recorder that has not delivered anything.
func (r *Recorder) Deliver(t testing.TB, header, body string) amqp.Delivery {
	t.Helper()
	deliveries, err := r.channel.Consume("orders", "c", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	const deliver = "\x01c" + "\x00\x00\x00\x00\x00\x00\x00\x01" + "\x00" + "\x00" + "\x06orders"
	const channel = 1
	for _, err := range []error{
		r.method(channel, 60, 60, deliver),
		r.frame(frameHeader, channel, header),
		r.frame(frameBody, channel, body),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return <-deliveries
}
