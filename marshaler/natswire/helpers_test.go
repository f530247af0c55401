package natswire_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/natswire"
)

const (
	hookID      = hooktest.ID
	traceparent = hooktest.Traceparent
	claimRef    = "urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y002"
	// ackReply is what JetStream writes for message 42 of the stream HOOKS.
	ackReply = "$JS.ACK.HOOKS.orders.1.42.7.1737500000000000000.0"
	receipt  = "HOOKS/42"
)

// The hook of the wire format's documentation.
const hookJSON = `{"v":1,"id":"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10","source_id":"stripe","tenant_id":"acme",` +
	`"received_at":1737500000000,"content_type":"application/json","size":5,"dedupe_key":"evt_1","replay_id":null,` +
	`"idempotency_key":"acme:stripe:evt_1","verification":{"status":"ok","flagged":false},` +
	`"headers":{"x-github-event":"push"},` +
	`"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":null,` +
	`"instance":"default","region":"eu-west-1",` +
	`"sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824","body_base64":"aGVsbG8="}`

func hook() *message.Message { return hooktest.Message() }

// natsMsg is a message as a client gets it from a stream, with headers as "name=value".
func natsMsg(data string, headers ...string) *nats.Msg {
	msg := &nats.Msg{Subject: "hooks", Reply: ackReply, Data: []byte(data)}
	for _, h := range headers {
		if msg.Header == nil {
			msg.Header = nats.Header{}
		}
		name, value, _ := strings.Cut(h, "=")
		msg.Header[name] = append(msg.Header[name], value)
	}
	return msg
}

func marshal(t testing.TB, m natswire.Marshaler, msg *message.Message) *nats.Msg {
	t.Helper()
	out, err := m.Marshal("hooks", msg)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func unmarshal(t testing.TB, m natswire.Marshaler, in *nats.Msg) *message.Message {
	t.Helper()
	msg, err := m.Unmarshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if msg == nil || msg.Metadata == nil {
		t.Fatalf("message %v", msg)
	}
	return msg
}

// written is what the client writes for the headers, by its rules, which are those of
// net/http: it is checked against the client itself where there are servers.
func written(t testing.TB, h nats.Header) []byte {
	t.Helper()
	if len(h) == 0 {
		return nil
	}
	b := bytes.NewBufferString("NATS/1.0\r\n")
	for name, values := range h {
		for _, value := range values {
			fmt.Fprintf(b, "%s: %s\r\n", name, strings.NewReplacer("\r", " ", "\n", " ").Replace(strings.Trim(value, " \t\r\n")))
		}
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// delivered is a published message as a consumer gets it.
func delivered(t testing.TB, out *nats.Msg) *nats.Msg {
	t.Helper()
	in := &nats.Msg{Subject: out.Subject, Reply: ackReply, Data: slices.Clone(out.Data)}
	if block := written(t, out.Header); block != nil {
		h, err := nats.DecodeHeadersMsg(block)
		if err != nil {
			t.Fatalf("the client does not read %q: %v", block, err)
		}
		in.Header = h
	}
	return in
}

// lines are the headers, sorted.
func lines(h nats.Header) []string {
	var list []string
	for name, values := range h {
		for _, value := range values {
			list = append(list, name+"="+value)
		}
	}
	slices.Sort(list)
	return list
}

// counter is an Observer.
type counter struct {
	malformed map[string]int
	fallback  map[string]int
}

func newCounter() *counter {
	return &counter{malformed: map[string]int{}, fallback: map[string]int{}}
}

func (c *counter) Malformed(topic string, code envelope.Code) { c.malformed[topic+" "+string(code)]++ }
func (c *counter) Fallback(topic string)                      { c.fallback[topic]++ }
