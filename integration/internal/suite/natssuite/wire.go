package natssuite

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/natswire"
)

// Literal checks message by message what a stream has stored.
func Literal(t *testing.T, addr string) {
	topic, js := topicName(t, "literal"), Context(t, addr)
	pub := JetStream(addr, Options{}).Publisher(t)
	var sequence uint64
	suite.EachLiteral(func(name string, msg *message.Message, json string, headers []suite.Pair) {
		want := map[string]string{nats.MsgIdHdr: envelope.PublishID(msg, topic)}
		for _, h := range headers {
			want[h.Name] = h.Value
		}
		if err := pub.Publish(topic, msg); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		sequence++
		got, err := js.GetMsg(named(topic), sequence)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if string(got.Data) != json {
			t.Errorf("%s: the data is\n%s\nwant\n%s", name, got.Data, json)
		}
		have := map[string]string{}
		for header, values := range got.Header {
			have[header] = strings.Join(values, " and ")
		}
		if !maps.Equal(have, want) {
			t.Errorf("%s: the headers are\n%q\nwant\n%q", name, have, want)
		}
	})
}

// sized returns a message that takes n bytes as the marshaler counts.
func sized(t testing.TB, m marshaler.Sealer, topic string, n int) *message.Message {
	t.Helper()
	msg := message.NewMessage("limit", []byte("body"))
	msg.Metadata.Set(envelope.MetadataReceivedAt, "1737500000000")
	msg.Metadata.Set("note", "n") // an empty one takes other bytes
	prepared, err := m.Prepare(topic, msg)
	if err != nil {
		t.Fatal(err)
	}
	inline, _, _ := m.Size(topic, prepared, "")
	msg.Metadata.Set("note", strings.Repeat("n", 1+n-int(inline)))
	return msg
}

const maxPayload = 40_000

// MaxPayload checks that max_payload is counted as the server counts: what we would send with a
// larger limit it refuses from the first byte on.
func MaxPayload(t *testing.T, addr string) {
	limited(t, addr, topicName(t, "limit"), maxPayload)
}

// MaxMsgSize checks the same of the limit of a stream.
func MaxMsgSize(t *testing.T, addr string) {
	const limit = 30_000
	topic := topicName(t, "limit")
	if _, err := Context(t, addr).AddStream(&nats.StreamConfig{
		Name: named(topic), Subjects: []string{topic}, Storage: nats.FileStorage, MaxMsgSize: limit,
	}); err != nil {
		t.Fatal(err)
	}
	limited(t, addr, topic, limit)
}

func limited(t *testing.T, addr, topic string, limit int) {
	m := natswire.Marshaler{Source: "suite", MaxMessageBytes: int64(limit)}
	pub := JetStream(addr, Options{Marshaler: m}).Publisher(t)
	// The same message each time would be stored once.
	m.DeduplicationID = func(string, *message.Message) string { return "" }
	m.MaxMessageBytes *= 2
	beyond := JetStream(addr, Options{Marshaler: m}).Publisher(t)
	for n, ok := range map[int]bool{limit - 1: true, limit: true, limit + 1: false} {
		err := beyond.Publish(topic, sized(t, m, topic, n))
		if ok != (err == nil) {
			t.Errorf("%d bytes past our check: %v", n, err)
		}
		counted := natswire.Marshaler{Source: "suite"}
		err = pub.Publish(topic, sized(t, counted, topic, n))
		var tooLarge *envelope.TooLargeError
		if ok && err != nil || !ok && (!errors.As(err, &tooLarge) || tooLarge.Size != int64(n) || tooLarge.Max != int64(limit)) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// HeaderBytes checks that a stream stores headers of exactly as many bytes as we say, and that
// metadata that would be over it travel in the JSON.
func HeaderBytes(t *testing.T, addr string) {
	topic, js := topicName(t, "headers"), Context(t, addr)
	if _, err := newStreams(t, Client(t, addr)).ensure(topic); err != nil {
		t.Fatal(err)
	}
	const framing = len("NATS/1.0\r\n" + "note" + ": " + "\r\n" + "\r\n")
	for n, ok := range map[int]bool{natswire.MaxHeaderBytes - 1: true, natswire.MaxHeaderBytes: true, natswire.MaxHeaderBytes + 1: false} {
		msg := nats.NewMsg(topic)
		msg.Header["note"] = []string{strings.Repeat("n", n-framing)}
		if _, err := js.PublishMsg(msg); ok != (err == nil) {
			t.Errorf("the server, headers of %d bytes: %v", n, err)
		}
	}

	m := natswire.Marshaler{Source: "suite"}
	b := JetStream(addr, Options{Marshaler: m})
	pub := b.Publisher(t)
	topic = topicName(t, "metadata")
	probe := sized(t, m, topic, 1000)
	sent, err := m.Marshal(topic, probe)
	if err != nil {
		t.Fatal(err)
	}
	headers := len("NATS/1.0\r\n" + "\r\n")
	for name, values := range sent.Header {
		headers += len(name + ": " + values[0] + "\r\n")
	}
	fill := natswire.MaxHeaderBytes - headers + len(probe.Metadata["note"])
	var last uint64
	for _, n := range []int{fill - 1, fill, fill + 1} {
		msg := message.NewMessage(fmt.Sprintf("%05d", n), []byte("body"))
		msg.Metadata.Set(envelope.MetadataReceivedAt, "1737500000000")
		msg.Metadata.Set("note", strings.Repeat("n", n))
		if err := pub.Publish(topic, msg); err != nil {
			t.Errorf("%d bytes of metadata: %v", n, err)
			continue
		}
		last++
		got, err := js.GetMsg(named(topic), last)
		if err != nil {
			t.Fatal(err)
		}
		if beside := got.Header["note"] != nil; beside != (n <= fill) {
			t.Errorf("%d bytes of metadata, of which %d fit: a header %t", n, fill, beside)
		}
		opened, err := m.Unmarshal(&nats.Msg{Subject: topic, Header: got.Header, Data: got.Data})
		if err != nil || opened.Metadata["note"] != msg.Metadata["note"] {
			t.Errorf("%d bytes of metadata came back as %d, %v", n, len(opened.Metadata["note"]), err)
		}
	}
}
