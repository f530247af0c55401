package natswire

import (
	"errors"
	"iter"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
)

var errNilMsg = errors.New("natswire: nil message")

// Unmarshal opens a message. Its error is always nil, whatever the message holds (a nil one,
// which no client delivers, is an error): one that cannot be read is malformed and keeps its
// bytes and its headers.
//
// Of several values of one header the first counts, and blanks around it are no part of it.
// Headers whose names begin with Nats- are the server's and no metadata.
func (m Marshaler) Unmarshal(msg *nats.Msg) (*message.Message, error) {
	if msg == nil {
		return nil, errNilMsg
	}
	var fallback func() (*message.Message, error)
	if m.Fallback != nil {
		fallback = func() (*message.Message, error) { return m.Fallback.Unmarshal(msg) }
	}
	w := m.wire(0)
	return open(&w, msg.Subject, msg.Reply, msg.Header, msg.Data, fallback), nil
}

// open opens what a client received.
func open(w *marshaler.Wire, subject, reply string, h nats.Header, data []byte, fallback func() (*message.Message, error)) *message.Message {
	r := marshaler.Received{
		Body:     data,
		Native:   headers(h),
		Topic:    subject,
		Fallback: fallback,
	}
	if stored := storedCopy(reply); stored != "" {
		r.Receipt = stored
		if len(h[envelope.MetadataID]) == 0 {
			r.ID = stored
		}
	} else {
		// Without a stream nothing is delivered twice: every delivery is a copy of its own.
		r.Receipt = "nats/" + envelope.NewID()
	}
	return w.Open(r)
}

// headers yields what is not the server's, with the first of several values.
func headers(h nats.Header) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for name, values := range h {
			if len(values) == 0 || isServers(name) {
				continue
			}
			if !yield(name, strings.Trim(values[0], " \t")) {
				return
			}
		}
	}
}

// storedCopy names what JetStream delivered: stream/sequence in the stream. It is "" for any
// other reply subject. Servers write
//
//	$JS.ACK.<stream>.<consumer>.<delivered>.<stream sequence>.<...>.<...>.<...>
//	$JS.ACK.<domain>.<account>.<stream>.<consumer>.<delivered>.<stream sequence>.<...>
//
// with nine tokens, and with eleven or more.
func storedCopy(reply string) string {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return ""
	}
	switch tokens := strings.Count(rest, "."); {
	case tokens == 6:
	case tokens >= 8:
		_, rest, _ = strings.Cut(rest, ".")
		_, rest, _ = strings.Cut(rest, ".")
	default:
		return ""
	}
	stream, rest, _ := strings.Cut(rest, ".")
	_, rest, _ = strings.Cut(rest, ".")
	_, rest, _ = strings.Cut(rest, ".")
	sequence, _, _ := strings.Cut(rest, ".")
	if stream == "" || !isDecimal(sequence) {
		return ""
	}
	return stream + "/" + sequence
}

func isDecimal(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
