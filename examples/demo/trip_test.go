package main

import (
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/watermill-envelope/envelope/marshaler/amqpwire"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
	"github.com/watermill-envelope/envelope/webhook"
)

// goodTrip takes a request file through all places, without brokers between them.
func goodTrip(t *testing.T, file string) *trip {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := readRequest(file)
	must(err)
	r.sign(time.Now())
	q, err := r.to("http://localhost")
	must(err)
	source := sourceOf(r.path)
	e, err := webhook.FromRequest(q, source.options(source.testSecret))
	must(err)

	wire := kafkawire.Marshaler{}
	claims, b := claimCheck(t)
	sent := new(captured)
	toKafka, err := claims.WrapPublisher(sent, wire)
	must(err)
	must(toKafka.Publish("hooks", e.Message()))
	produced, err := wire.Marshal("hooks", sent.msg)
	must(err)
	value, err := produced.Value.Encode()
	must(err)
	key, err := produced.Key.Encode()
	must(err)
	record := &kgo.Record{Topic: "hooks", Key: key, Value: value}
	consumed := &sarama.ConsumerMessage{Topic: "hooks", Key: key, Value: value}
	for _, h := range produced.Headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: string(h.Key), Value: h.Value})
		consumed.Headers = append(consumed.Headers, &sarama.RecordHeader{Key: h.Key, Value: h.Value})
	}
	msg, err := wire.Unmarshal(consumed)
	must(err)
	var seen sighting
	out, err := claims.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		seen = see(msg)
		return handle(msg)
	})(msg)
	must(err)
	toRabbit, err := claims.WrapPublisher(sent, amqpwire.Marshaler{})
	must(err)
	must(toRabbit.Publish("hooks", out[0]))
	published, err := amqpwire.Marshaler{}.Marshal(sent.msg)
	must(err)
	delivery := fromAMQP(amqp.Delivery{
		DeliveryTag: 1, RoutingKey: "hooks", Headers: published.Headers, MessageId: published.MessageId,
		ContentType: published.ContentType, Timestamp: published.Timestamp, Body: published.Body,
	})
	trip := &trip{
		title: file, to: transports[0], request: r, status: http.StatusAccepted, replyID: e.ID,
		record: record, seen: seen, archived: seen, delivery: delivery,
	}
	trip.onKafka, err = readWire(record.Value)
	must(err)
	trip.onNext, err = readWire(delivery.body)
	must(err)
	must(trip.open(t.Context(), claims, b))
	trip.archived.payload = slices.Clone(seen.payload)
	return trip
}

// claimCheck keeps bodies in a folder of the test.
func claimCheck(t *testing.T) (*hookmw.ClaimCheck, bodies) {
	t.Helper()
	b, err := openFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	claims, err := hookmw.NewClaimCheck(hookmw.ClaimCheckConfig{Store: b.store})
	if err != nil {
		t.Fatal(err)
	}
	return claims, b
}

// captured is a publisher that keeps the last message.
type captured struct{ msg *message.Message }

func (c *captured) Publish(_ string, messages ...*message.Message) error {
	c.msg = messages[len(messages)-1]
	return nil
}

func (*captured) Close() error { return nil }

func wrong(t *trip) (names []string) {
	for _, c := range t.checks() {
		if len(c.wrong) > 0 {
			names = append(names, c.name)
		}
	}
	return names
}

func TestChecksPassAnHonestTrip(t *testing.T) {
	for _, s := range stops {
		for _, c := range goodTrip(t, s.file).checks() {
			for _, w := range c.wrong {
				t.Errorf("%s: %s: %s", s.title, c.name, w)
			}
		}
	}
}

// Each difference, at each place, is found.
func TestChecksFindEachDifference(t *testing.T) {
	tests := []struct {
		what  string
		spoil func(*trip)
		want  string
	}{
		{"no id in the answer", func(t *trip) { t.replyID = "" }, "ids"},
		{"another id on Kafka", func(t *trip) { t.onKafka.ID = "x" }, "ids metadata"}, // its header has the old one
		{"another id at the handler", func(t *trip) { t.seen.uuid = "x" }, "ids"},
		{"another id on RabbitMQ", func(t *trip) { t.onNext.ID = "x" }, "ids"},
		{"another message_id", func(t *trip) { t.delivery.id = "x" }, "ids"},
		{"a byte of the body on Kafka", func(t *trip) { t.onKafka.Body[0]++ }, "bytes"},
		{"a body cut short at the handler", func(t *trip) { t.seen.payload = t.seen.payload[1:] }, "bytes"},
		{"a byte of the body on RabbitMQ", func(t *trip) { t.onNext.Body[0]++ }, "bytes"},
		{"a body cut short at the second group", func(t *trip) { t.archived.payload = t.archived.payload[1:] }, "bytes"},
		{"a body cut short behind RabbitMQ", func(t *trip) { t.opened.Payload = t.opened.Payload[1:] }, "bytes"},
		{"another id at the second group", func(t *trip) { t.archived.uuid = "x" }, "ids"},
		{"another digest", func(t *trip) { t.onNext.SHA256 = "x" }, "bytes"},
		{"another size", func(t *trip) { t.onKafka.Size++ }, "bytes"},
		{"a header lost on Kafka", func(t *trip) { delete(t.onKafka.Headers, "x-github-event") }, "headers"},
		{"a credential forwarded", func(t *trip) { t.onNext.Headers["authorization"] = "x" }, "headers"},
		{"a header changed at the handler", func(t *trip) { t.seen.metadata["ankusa_headers"] = `{"accept":"x"}` }, "headers metadata"},
		{"another content type", func(t *trip) { t.onNext.ContentType = "text/plain" }, "headers"},
		{"another Kafka key", func(t *trip) { t.record.Key = []byte("x") }, "metadata"},
		{"a Kafka header lost", func(t *trip) { t.record.Headers = t.record.Headers[1:] }, "metadata"},
		{"a header lost on RabbitMQ", func(t *trip) { delete(t.delivery.attributes, "ankusa_id") }, "metadata"},
		{"the handler's own entry lost", func(t *trip) { delete(t.delivery.attributes, handledBy) }, "metadata"},
		{"an entry that nobody set", func(t *trip) { t.delivery.attributes["extra"] = "x" }, "metadata"},
		{"metadata lost at the handler", func(t *trip) { delete(t.seen.metadata, "ankusa_dedupe_key") }, "metadata"},
		{"metadata lost behind RabbitMQ", func(t *trip) { delete(t.opened.Metadata, "ankusa_verification") }, "metadata"},
		{"another text on RabbitMQ", func(t *trip) { t.delivery.body = append(t.delivery.body, ' ') }, "JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			trip := goodTrip(t, "github-push")
			tt.spoil(trip)
			if got := strings.Join(wrong(trip), " "); got != tt.want {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}

// The same for what is only there when the body is stored.
func TestChecksFindEachDifferenceOfAClaim(t *testing.T) {
	for _, tt := range []struct {
		what  string
		spoil func(*trip)
		want  string
	}{
		{"a byte of the stored body", func(t *trip) { t.stored[0]++ }, "bytes"},
		{"a stored body cut short", func(t *trip) { t.stored = t.stored[1:] }, "bytes"},
		{"another claim on RabbitMQ", func(t *trip) { t.onNext.Claim += "0" }, "claim"},
		{"a body in the message on Kafka", func(t *trip) { t.onKafka.Body = []byte("x") }, "claim"},
		{"a body in the message on RabbitMQ", func(t *trip) { t.onNext.Body = []byte("x") }, "claim"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			trip := goodTrip(t, "large")
			tt.spoil(trip)
			if got := strings.Join(wrong(trip), " "); got != tt.want {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRequestFiles(t *testing.T) {
	want := map[string]bool{"forged": true}
	for _, s := range stops {
		want[s.file] = true
	}
	entries, err := requests.ReadDir("requests")
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]bool)
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".curl"); ok {
			got[name] = true
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the files are %v, the demo sends %v", got, want)
	}

	bodies := make(map[string][]byte)
	for name := range got {
		r, err := readRequest(name)
		if err != nil {
			t.Fatal(err)
		}
		if sourceOf(r.path).name == "" {
			t.Errorf("%s: no source has the path %q", name, r.path)
		}
		bodies[name] = r.body
	}
	for i := range 256 {
		if bodies["every-byte"][i] != byte(i) {
			t.Fatalf("byte %d of every-byte is %d", i, bodies["every-byte"][i])
		}
	}
	if len(bodies["empty"]) != 0 {
		t.Error("the empty body is not empty")
	}
	if !strings.Contains(string(bodies["shopify-order"]), "日本語") {
		t.Error("the Shopify order is ASCII")
	}
	if string(bodies["forged"]) != string(bodies["github-push"]) {
		t.Error("the forged request has a body of its own")
	}
}

func TestRequestFileErrors(t *testing.T) {
	for _, line := range []string{
		"url = http://localhost", `compressed = "x"`, `header "x"`, `data-binary = "@no-such-file"`, `url = "http://%zz"`,
	} {
		if err := new(request).option(line); err == nil {
			t.Errorf("%s: no error", line)
		}
	}
}

func TestForgedRequestIsRefused(t *testing.T) {
	r, err := readRequest("forged")
	if err != nil {
		t.Fatal(err)
	}
	q, err := r.to("http://localhost")
	if err != nil {
		t.Fatal(err)
	}
	source := sourceOf(r.path)
	_, err = webhook.FromRequest(q, source.options(source.testSecret))
	if webhook.StatusCode(err) != http.StatusUnauthorized {
		t.Errorf("err = %v, want one that is answered 401", err)
	}
}

func TestStripeEventID(t *testing.T) {
	for body, want := range map[string]string{
		`{"id":"evt_1"}`: "evt_1", `{}`: "", ``: "", `{"id":7}`: "",
	} {
		if got, err := stripeEventID(nil, []byte(body)); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", body, got, err, want)
		}
	}
}

var _ message.HandlerFunc = handle

// A folder of the program's own goes with it, unless messages outlive the program; one that
// was chosen stays.
func TestFoldersForBodies(t *testing.T) {
	chosen := t.TempDir()
	for _, tt := range []struct {
		what   string
		folder string
		keep   bool
		stays  bool
	}{
		{"temporary", "", false, false},
		{"temporary, and messages stay on real servers", "", true, true},
		{"chosen", chosen, false, true},
	} {
		t.Run(tt.what, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			c := config{log: slog.New(slog.DiscardHandler)}
			done, err := c.openBodies("", tt.folder, tt.keep)
			if err != nil {
				t.Fatal(err)
			}
			key := "claims/tenant=acme/dt=2026-09-24/01M39VMD8RA3C5HR4RBV670000"
			if err := c.bodies.store.Put(t.Context(), key, io.NewSectionReader(strings.NewReader("x"), 0, 1)); err != nil {
				t.Fatal(err)
			}
			if err := done(); err != nil {
				t.Fatal(err)
			}
			folder := filepath.Join(temp, "*")
			if tt.folder != "" {
				folder = tt.folder
			}
			files, err := filepath.Glob(filepath.Join(folder, filepath.FromSlash(key)))
			if err != nil || (len(files) > 0) != tt.stays {
				t.Errorf("left behind: %q, %v", files, err)
			}
		})
	}
}
