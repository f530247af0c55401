package rabbitmq_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// A script is a broker that does with each message it is sent what a test wants: real ones do
// not lose a connection between two confirms when they are asked to. It knows one channel on
// each connection, and as much of the protocol as publishing takes.
type script struct {
	uri      rabbitmq.URI
	frameMax uint32
	// then says what follows the nth message of the cth connection, both from 0: any of "ack",
	// "multiple" (an ack of all so far), "nack", "return", "drop", "refuse" (406, the channel)
	// and "break" (501, the connection), in their order.
	then func(c, n int) []string

	mu   sync.Mutex
	got  []string // bodies, in the order of their arrival
	wait sync.WaitGroup
}

func newScript(t *testing.T, frameMax uint32, then func(c, n int) []string) *script {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &script{uri: rabbitmq.URI("amqp://user:secret@" + listener.Addr().String()), frameMax: frameMax, then: then}
	s.wait.Go(func() {
		for c := 0; ; c++ {
			conn, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			s.wait.Go(func() {
				defer conn.Close()
				if err := s.serve(conn, c); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errDropped) {
					t.Errorf("script: connection %d: %v", c, err)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		s.wait.Wait()
	})
	return s
}

func (s *script) bodies() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.got...)
}

var errDropped = errors.New("dropped")

const (
	frameMethod, frameHeader, frameBody, frameEnd = 1, 2, 3, 0xce
)

// peer is one connection.
type peer struct {
	conn    net.Conn
	in      *bufio.Reader
	tag     uint64 // of the last message on the channel
	channel uint16
}

func (p *peer) frame(kind byte, channel uint16, payload []byte) error {
	frame := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(payload)))
	frame = append(append(frame, payload...), frameEnd)
	_, err := p.conn.Write(frame)
	return err
}

func (p *peer) method(channel, class, method uint16, arguments string) error {
	payload := binary.BigEndian.AppendUint16(nil, class)
	payload = binary.BigEndian.AppendUint16(payload, method)
	return p.frame(frameMethod, channel, append(payload, arguments...))
}

func (p *peer) read() (kind byte, payload []byte, err error) {
	var head [7]byte
	if _, err := io.ReadFull(p.in, head[:]); err != nil {
		return 0, nil, err
	}
	payload = make([]byte, binary.BigEndian.Uint32(head[3:])+1)
	_, err = io.ReadFull(p.in, payload)
	p.channel = binary.BigEndian.Uint16(head[1:])
	return head[0], payload[:len(payload)-1], err
}

func (s *script) serve(conn net.Conn, c int) error {
	p := &peer{conn: conn, in: bufio.NewReader(conn)}
	if _, err := io.ReadFull(p.in, make([]byte, len("AMQP\x00\x00\x09\x01"))); err != nil {
		return err
	}
	const start = "\x00\x09" + "\x00\x00\x00\x00" + "\x00\x00\x00\x05PLAIN" + "\x00\x00\x00\x05en_US"
	if err := p.method(0, 10, 10, start); err != nil {
		return err
	}
	for n := 0; ; {
		kind, payload, err := p.read()
		if err != nil {
			return err
		}
		if kind != frameMethod {
			continue // a heartbeat
		}
		switch class, method := binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:]); {
		case class == 10 && method == 11: // connection.start-ok: tune
			err = p.method(0, 10, 30, "\x00\x00"+string(binary.BigEndian.AppendUint32(nil, s.frameMax))+"\x00\x00")
		case class == 10 && method == 40: // connection.open
			err = p.method(0, 10, 41, "\x00")
		case class == 10 && method == 50: // connection.close
			return p.method(0, 10, 51, "")
		case class == 10 && method == 51: // connection.close-ok
			return nil
		case class == 20 && method == 10: // channel.open
			p.tag = 0
			err = p.method(p.channel, 20, 11, "\x00\x00\x00\x00")
		case class == 20 && method == 40: // channel.close
			err = p.method(p.channel, 20, 41, "")
		case class == 85: // confirm.select
			err = p.method(p.channel, 85, 11, "")
		case class == 60 && method == 40: // basic.publish
			err = s.message(p, c, n, string(payload[4+2:]))
			n++
		}
		if err != nil {
			return err
		}
	}
}

// message reads the rest of a message and does what the script says.
func (s *script) message(p *peer, c, n int, route string) error {
	_, header, err := p.read()
	if err != nil {
		return err
	}
	var body []byte
	for size := binary.BigEndian.Uint64(header[4:]); uint64(len(body)) < size; {
		_, part, err := p.read()
		if err != nil {
			return err
		}
		body = append(body, part...)
	}
	p.tag++
	s.mu.Lock()
	s.got = append(s.got, string(body))
	s.mu.Unlock()

	tag := string(binary.BigEndian.AppendUint64(nil, p.tag))
	names := route[:len(route)-1] // exchange and routing key, without the flags
	for _, action := range s.then(c, n) {
		switch action {
		case "ack":
			err = p.method(p.channel, 60, 80, tag+"\x00")
		case "multiple":
			err = p.method(p.channel, 60, 80, tag+"\x01")
		case "nack":
			err = p.method(p.channel, 60, 120, tag+"\x00")
		case "return":
			err = errors.Join(
				p.method(p.channel, 60, 50, "\x01\x38"+"\x08NO_ROUTE"+names),
				p.frame(frameHeader, p.channel, header),
				p.frame(frameBody, p.channel, body),
			)
		case "refuse":
			err = p.method(p.channel, 20, 40, "\x01\x96"+"\x13PRECONDITION_FAILED"+"\x00\x3c\x00\x28")
		case "break":
			err = p.method(0, 10, 50, "\x01\xf5"+"\x0bFRAME_ERROR"+"\x00\x00\x00\x00")
		case "drop":
			return errDropped
		}
		if err != nil {
			return err
		}
	}
	return nil
}
