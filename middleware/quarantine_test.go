package middleware_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// A refusals keeps the codes that it is told.
type refusals struct{ codes []envelope.Code }

func (r *refusals) Refused(_ string, code envelope.Code) { r.codes = append(r.codes, code) }

// received is what a consumer of Kafka gets of a record that cannot be read.
func received(t *testing.T, value string) *message.Message {
	t.Helper()
	msg, err := kafkawire.Marshaler{}.Unmarshal(&sarama.ConsumerMessage{
		Topic: "hooks", Key: []byte("k"), Value: []byte(value),
		Headers: []*sarama.RecordHeader{{Key: []byte("x-provider"), Value: []byte("\xff")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

func TestMalformedCounts(t *testing.T) {
	counted := new(refusals)
	h := hookmw.Malformed{Observer: counted}.Middleware(message.PassthroughHandler)
	for _, msg := range []*message.Message{
		hook(nil),
		received(t, "{"),
		open("", "envelope_malformed", "invalid_field:size"),
		open("", "ankusa_id", "x", "ankusa_claim", claimRef),
	} {
		_, _ = h(msg)
	}
	if want := []envelope.Code{"invalid_json", "invalid_field", "claim_not_enabled"}; !slices.Equal(counted.codes, want) {
		t.Errorf("counted %v, want %v", counted.codes, want)
	}
}

// What is refused goes to the quarantine with its bytes, its headers, its key and the reason.
func TestQuarantine(t *testing.T) {
	const broken = "{\"v\":1,\x00broken"
	b := &broker{Marshaler: kafkawire.Marshaler{}}
	counted := new(refusals)
	log, out := lines()
	gate := hookmw.Malformed{Quarantine: b, QuarantineTopic: "quarantine", Observer: counted, Logger: log}
	if err := gate.Validate(); err != nil {
		t.Fatal(err)
	}
	msg := received(t, broken)
	before := maps.Clone(msg.Metadata)
	h := gate.Middleware(func(*message.Message) ([]*message.Message, error) {
		t.Error("the handler was called")
		return nil, nil
	})
	if produced, err := h(msg); produced != nil || err != nil {
		t.Fatalf("produced %v, error %v; want neither, so that it is acknowledged", produced, err)
	}
	if !maps.Equal(msg.Metadata, before) {
		t.Error("the message was changed")
	}
	r := b.records[0]
	if value, _ := r.Value.Encode(); string(value) != broken || r.Topic != "quarantine" || r.Key != sarama.StringEncoder("k") {
		t.Errorf("in quarantine: %q under key %v in %s", value, r.Key, r.Topic)
	}
	got := b.receive(t, 0)
	if got.UUID != msg.UUID || string(envelope.Raw(got)) != broken || got.Metadata["x-provider"] != "\xff" ||
		got.Metadata["reason_poisoned"] != "envelope: invalid_json" {
		t.Errorf("in quarantine: %s %v", got.UUID, got.Metadata)
	}
	if _, err := h(open("", "ankusa_id", "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10", "ankusa_source_id", "stripe",
		"ankusa_tenant_id", "acme", "ankusa_size", "5", "ankusa_sha256", strings.Repeat("a", 64), "ankusa_claim", claimRef)); err != nil {
		t.Fatal(err)
	}
	if got := b.receive(t, 1); got.Metadata["ankusa_claim"] != claimRef {
		t.Errorf("of a claim that nothing redeemed: %v", got.Metadata)
	}
	if want := []envelope.Code{"invalid_json", "claim_not_enabled"}; !slices.Equal(counted.codes, want) {
		t.Errorf("counted %v, want %v", counted.codes, want)
	}
	if log := out.String(); strings.Count(log, "\n") != 2 || strings.Count(log, `msg="message quarantined"`) != 2 {
		t.Errorf("logged\n%s", log)
	}
}

// A message that cannot be quarantined comes again, even where the cause is permanent, and
// counts once.
func TestQuarantineDown(t *testing.T) {
	for _, cause := range []error{errors.New("connection refused"), &envelope.TooLargeError{Size: 2, Max: 1}} {
		b := &broker{Marshaler: kafkawire.Marshaler{}, err: cause}
		counted := new(refusals)
		log, out := lines()
		h := hookmw.Malformed{Quarantine: b, QuarantineTopic: "quarantine", Observer: counted, Logger: log}.Middleware(message.PassthroughHandler)
		msg := received(t, "{")
		_, err := h(msg)
		if !errors.Is(err, cause) || !envelope.IsTransient(err) || envelope.IsPermanent(err) || hookmw.ShouldPoison(err) {
			t.Errorf("error %v, want a transient one", err)
		}
		if len(counted.codes) != 0 || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("counted %v, logged %s", counted.codes, out)
		}
		b.err = nil
		if _, err := h(msg); err != nil || len(counted.codes) != 1 || len(b.records) != 1 {
			t.Errorf("the next time: %v, counted %v, %d records", err, counted.codes, len(b.records))
		}
	}
}

func TestMalformedValidate(t *testing.T) {
	for _, gate := range []hookmw.Malformed{{Quarantine: new(sink)}, {QuarantineTopic: "quarantine"}} {
		if err := gate.Validate(); err == nil {
			t.Errorf("%+v is valid", gate)
		}
	}
}

// In a router, what Watermill knows of topic, handler and subscriber is kept too.
func TestQuarantineInARouter(t *testing.T) {
	log := watermill.NewSlogLogger(slog.New(slog.DiscardHandler))
	topic := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, log)
	router, err := message.NewRouter(message.RouterConfig{}, log)
	if err != nil {
		t.Fatal(err)
	}
	quarantine := new(sink)
	router.AddMiddleware(hookmw.Malformed{Quarantine: quarantine, QuarantineTopic: "quarantine"}.Middleware)
	router.AddConsumerHandler("billing", "hooks", topic, func(*message.Message) error {
		t.Error("the handler was called")
		return nil
	})
	done := make(chan error, 1)
	go func() { done <- router.Run(context.Background()) }()
	<-router.Running()
	// Publish returns when the message is acknowledged, and so in quarantine.
	if err := topic.Publish("hooks", open("", "ankusa_id", "x", "ankusa_claim", claimRef)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(router.Close(), <-done, topic.Close()); err != nil {
		t.Fatal(err)
	}
	if len(quarantine.given) != 1 {
		t.Fatalf("in quarantine: %v", quarantine.given)
	}
	for name, want := range map[string]string{
		"reason_poisoned": "envelope: claim_not_enabled: the body is a claim and nothing here redeems it",
		"topic_poisoned":  "hooks", "handler_poisoned": "billing", "subscriber_poisoned": "gochannel.GoChannel",
	} {
		if got := quarantine.given[0].Metadata[name]; got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}
