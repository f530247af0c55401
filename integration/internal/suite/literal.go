package suite

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
)

// A literal is a message and what must be on the wire for it.
type literal struct {
	name   string
	msg    func() *message.Message
	json   string
	key    string
	native []Pair
	stamp  int64 // of the record in Unix milliseconds; 0: the time of publishing
}

func literals() []literal {
	full := envelope.Envelope{
		ID: "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10", SourceID: "stripe", TenantID: "acme", ReceivedAt: time.UnixMilli(1737500000123),
		ContentType: "application/json", Headers: []envelope.Header{{Name: "x-github-event", Value: "push"}, {Name: "x-text", Value: `a "b"`}},
		Body: []byte("hello"), DedupeKey: "evt_1", ReplayID: "again", Verification: envelope.Verification{Status: envelope.VerificationOK},
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Tracestate: "a=1", Instance: "default", Region: "eu-west-1",
		OrderingKey: "lane", Metadata: map[string]string{"correlation_id": "c-1", "b-name": "grüße", "content_type": "text/plain"},
	}
	minimal := envelope.Envelope{ID: "hook-1", SourceID: "s", ReceivedAt: time.UnixMilli(1737500000000)}
	claim := envelope.Envelope{
		ID: "hook-2", SourceID: "s", TenantID: "acme", ReceivedAt: time.UnixMilli(1737500000000), Size: 3145728,
		Claim: "urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y002", SHA256: strings.Repeat("0123456789abcdef", 4),
	}
	return []literal{
		{
			"every field", full.Message,
			`{"v":1,"id":"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10","source_id":"stripe","tenant_id":"acme","received_at":1737500000123,"content_type":"application/json","size":5,"dedupe_key":"evt_1","replay_id":"again","idempotency_key":"acme:stripe:evt_1","verification":{"status":"ok","flagged":false},"headers":{"x-github-event":"push","x-text":"a \"b\""},"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"a=1","instance":"default","region":"eu-west-1","ordering_key":"lane","watermill_metadata":{"content_type":"text/plain"},"sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824","body_base64":"aGVsbG8="}`,
			"lane",
			[]Pair{
				{"ankusa_id", "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10"},
				{"ankusa_source_id", "stripe"},
				{"ankusa_tenant_id", "acme"},
				{"ankusa_message_version", "1"},
				{"ankusa_idempotency_key", "acme:stripe:evt_1"},
				{"content_type", "application/json"},
				{"ankusa_dedupe_key", "evt_1"},
				{"ankusa_replay_id", "again"},
				{"ankusa_ordering_key", "lane"},
				{"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
				{"tracestate", "a=1"},
				{"b-name", "grüße"},
				{"correlation_id", "c-1"},
			},
			0, // a replay: retention must not delete it at once
		},
		{
			"only what is required", minimal.Message,
			`{"v":1,"id":"hook-1","source_id":"s","tenant_id":null,"received_at":1737500000000,"content_type":null,"size":0,"dedupe_key":null,"replay_id":null,"idempotency_key":"hook-1","verification":{"status":"skipped","flagged":false},"headers":{},"traceparent":null,"tracestate":null,"instance":null,"region":null,"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","body_base64":""}`,
			"/s",
			[]Pair{
				{"ankusa_id", "hook-1"},
				{"ankusa_source_id", "s"},
				{"ankusa_tenant_id", ""},
				{"ankusa_message_version", "1"},
				{"ankusa_idempotency_key", "hook-1"},
				{"content_type", "application/json"},
			},
			1737500000000,
		},
		{
			"a claim", claim.Message,
			`{"v":1,"id":"hook-2","source_id":"s","tenant_id":"acme","received_at":1737500000000,"content_type":null,"size":3145728,"dedupe_key":null,"replay_id":null,"idempotency_key":"hook-2","verification":{"status":"skipped","flagged":false},"headers":{},"traceparent":null,"tracestate":null,"instance":null,"region":null,"sha256":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","claim":"urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y002"}`,
			"acme/s",
			[]Pair{
				{"ankusa_id", "hook-2"},
				{"ankusa_source_id", "s"},
				{"ankusa_tenant_id", "acme"},
				{"ankusa_message_version", "1"},
				{"ankusa_idempotency_key", "hook-2"},
				{"content_type", "application/json"},
			},
			1737500000000,
		},
	}
}

// EachLiteral hands each message whose wire form is known to check, with its JSON and its
// headers, as transports with headers have them.
func EachLiteral(check func(name string, msg *message.Message, json string, headers []Pair)) {
	for _, l := range literals() {
		check(l.name, l.msg(), l.json, l.native)
	}
}

// KafkaLiteral checks record by record what a client that is not Watermill sees.
func KafkaLiteral(t *testing.T, addr string, b Broker) {
	ctx := Context(t)
	topic := topicName(t, "literal")
	pub := b.Publisher(t)
	began := time.Now().Add(-time.Second)
	for _, l := range literals() {
		if err := pub.Publish(topic, l.msg()); err != nil {
			t.Fatalf("%s: %v", l.name, err)
		}
	}
	client := KafkaClient(t, addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	records := KafkaRecords(ctx, t, client, len(literals()))
	for i, l := range literals() {
		r := records[i]
		if string(r.Value) != l.json {
			t.Errorf("%s: the value is\n%s\nwant\n%s", l.name, r.Value, l.json)
		}
		if string(r.Key) != l.key {
			t.Errorf("%s: the key is %q, want %q", l.name, r.Key, l.key)
		}
		var headers []Pair
		for _, h := range r.Headers {
			headers = append(headers, Pair{h.Key, string(h.Value)})
		}
		if !slices.Equal(headers, l.native) {
			t.Errorf("%s: the headers are\n%q\nwant\n%q", l.name, headers, l.native)
		}
		if l.stamp != 0 && r.Timestamp.UnixMilli() != l.stamp {
			t.Errorf("%s: the timestamp is %d, want %d", l.name, r.Timestamp.UnixMilli(), l.stamp)
		}
		if l.stamp == 0 && r.Timestamp.Before(began) {
			t.Errorf("%s: the timestamp is %v, want the time of publishing", l.name, r.Timestamp)
		}
	}
}

// RabbitMQLiteral checks delivery by delivery what a client that is not Watermill sees.
func RabbitMQLiteral(t *testing.T, url string, b Broker) {
	ctx := Context(t)
	topic := topicName(t, "literal")
	channel := AMQPChannel(t, url)
	if err := channel.ExchangeDeclare(topic, "fanout", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	queue, err := channel.QueueDeclare(topic, true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.QueueBind(queue.Name, "", topic, false, nil); err != nil {
		t.Fatal(err)
	}
	pub := b.Publisher(t)
	for _, l := range literals() {
		if err := pub.Publish(topic, l.msg()); err != nil {
			t.Fatalf("%s: %v", l.name, err)
		}
	}
	for i, d := range AMQPDeliveries(ctx, t, channel, queue.Name, len(literals())) {
		l := literals()[i]
		if string(d.Body) != l.json {
			t.Errorf("%s: the body is\n%s\nwant\n%s", l.name, d.Body, l.json)
		}
		want := amqp.Table{}
		for _, p := range l.native {
			want[p.Name] = p.Value
		}
		if !reflect.DeepEqual(d.Headers, want) {
			t.Errorf("%s: the headers are\n%v\nwant\n%v", l.name, d.Headers, want)
		}
		if d.ContentType != "application/json" || d.DeliveryMode != amqp.Persistent || d.MessageId != want["ankusa_id"] || d.Type != "" {
			t.Errorf("%s: content_type %q, delivery_mode %d, message_id %q, type %q", l.name, d.ContentType, d.DeliveryMode, d.MessageId, d.Type)
		}
		if d.Timestamp.Unix() != 1737500000 {
			t.Errorf("%s: the timestamp is %v, want ReceivedAt in seconds", l.name, d.Timestamp)
		}
	}
}

// Foreign checks that messages of a producer that is neither Watermill nor ours are
// consumed, whatever their headers say.
func Foreign(t *testing.T, b Broker, peer Peer) {
	ctx := Context(t)
	topic := topicName(t, "foreign")
	messages, err := b.Subscriber(t, "foreign").Subscribe(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	minimal := func(id string, members string) []byte {
		return []byte(`{"v":2,"id":"` + id + `","source_id":"s","received_at":1,"size":2,"body_base64":"aGk="` + members + `}`)
	}
	for _, c := range []struct {
		name string
		raw  Raw
		want map[string]string // metadata, beside those of every case
		not  []string
	}{
		{name: "minimal, no header at all", raw: Raw{Body: minimal("f-1", "")}},
		{
			name: "headers of the producer's own",
			raw:  Raw{Key: "k", Body: minimal("f-2", ""), Headers: []Pair{{"X-Mixed", "grüße"}, {"empty", ""}}},
			want: map[string]string{"X-Mixed": "grüße", "empty": ""},
		},
		{
			name: "headers that claim to be ours",
			raw: Raw{Body: minimal("f-3", ""), Headers: []Pair{
				{"envelope_redeemed", "true"},
				{"Envelope_Malformed", "invalid_json"},
				{"ankusa_tenant_id", "evil"},
				{"ANKUSA_VERIFICATION", "ok"},
				{"ankusa_claim", "urn:ankusa:claim:v1:evil:01M39VMD8RA3C5HR4RBV67Y002"},
				{"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
			}},
			not: []string{"envelope_redeemed", "Envelope_Malformed", "ankusa_tenant_id", "ANKUSA_VERIFICATION", "ankusa_verification", "ankusa_claim", "traceparent"},
		},
		{
			name: "an unknown member",
			raw:  Raw{Body: minimal("f-4", `,"future":{"a":[1.50,"\u00e9"]}`)},
			want: map[string]string{envelope.MetadataUnknown: `{"future":{"a":[1.50,"\u00e9"]}}`},
		},
	} {
		if _, ok := peer.(TextPeer); ok {
			c.raw.Headers = slices.DeleteFunc(c.raw.Headers, func(h Pair) bool { return h.Value == "" })
			maps.DeleteFunc(c.want, func(_, value string) bool { return value == "" })
		}
		peer.Put(ctx, t, topic, c.raw)
		var msg *message.Message
		select {
		case msg = <-messages:
		case <-ctx.Done():
			t.Fatalf("%s: %v", c.name, ctx.Err())
		}
		if msg == nil {
			t.Fatalf("%s: the subscription ended", c.name)
		}
		msg.Ack()
		var doc struct{ ID string }
		if err := json.Unmarshal(c.raw.Body, &doc); err != nil {
			t.Fatal(err)
		}
		if string(msg.Payload) != "hi" || msg.UUID != doc.ID {
			t.Errorf("%s: got message %q with body %q", c.name, msg.UUID, msg.Payload)
		}
		want := map[string]string{envelope.MetadataID: doc.ID, envelope.MetadataSourceID: "s", envelope.MetadataReceivedAt: "1"}
		maps.Copy(want, c.want)
		for name, value := range want {
			if got, ok := msg.Metadata[name]; !ok || got != value {
				t.Errorf("%s: metadata %s is %q, want %q", c.name, name, got, value)
			}
		}
		for _, name := range c.not {
			if got, ok := msg.Metadata[name]; ok {
				t.Errorf("%s: metadata %s is %q, want it not believed", c.name, name, got)
			}
		}
	}
}
