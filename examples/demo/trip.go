package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/watermill-envelope/envelope"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// A trip is one hook at each of the places that it came past.
type trip struct {
	title   string
	to      transport // the next one
	request *request
	status  int    // of the response
	reply   string // body of the response
	replyID string // id that the response names

	record   *kgo.Record // as it stands on Kafka
	seen     sighting    // what the handler was given
	archived sighting    // what the handler of the second group was given
	delivery delivery

	onKafka, onNext wire             // what the two texts say
	key             string           // of the object that holds the body, when the message does not
	stored          []byte           // the body as it lies there
	opened          *message.Message // what the next Watermill service is given
}

// open reads what the next transport delivered as the next Watermill service does, and the body where
// it is stored as nobody does who knows this library.
func (t *trip) open(ctx context.Context, claims *hookmw.ClaimCheck, b bodies) error {
	msg, err := t.delivery.open()
	if err != nil {
		return err
	}
	msg.SetContext(ctx)
	redeem := claims.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		t.opened = msg
		return nil, nil
	})
	if _, err := redeem(msg); err != nil || t.onKafka.Claim == "" {
		return err
	}
	t.key, t.stored, err = b.witness(ctx, t.onKafka.Claim)
	return err
}

// A sighting is a copy of the message that a handler was given.
type sighting struct {
	uuid     string
	payload  []byte
	metadata map[string]string
}

func see(msg *message.Message) sighting {
	return sighting{msg.UUID, slices.Clone(msg.Payload), maps.Clone(msg.Metadata)}
}

// A check is one of the things that have to be equal from one end to the other.
type check struct {
	name  string
	count string   // of what was compared
	wrong []string // how it differs; empty when equal
}

func (c *check) equal(what, want, got string) {
	if want != got {
		c.wrong = append(c.wrong, fmt.Sprintf("%s: %s, want %s", what, brief(got), brief(want)))
	}
}

func (c *check) equalMaps(what string, want, got map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if v, ok := got[name]; !ok {
			c.wrong = append(c.wrong, what+": "+name+" is missing")
		} else {
			c.equal(what+": "+name, want[name], v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			c.wrong = append(c.wrong, what+": "+name+" was not there before")
		}
	}
}

// checks compares the hook at all places with what was sent.
func (t *trip) checks() []check {
	checks := []check{t.checkIDs(), t.checkBytes(), t.checkHeaders(), t.checkMetadata(), t.checkJSON()}
	if t.onKafka.Claim != "" {
		checks = append(checks, t.checkClaim())
	}
	return checks
}

func (t *trip) checkIDs() check {
	c := check{name: "ids"}
	c.equal("Kafka", t.replyID, t.onKafka.ID)
	c.equal("handler", t.replyID, t.seen.uuid)
	c.equal("second group", t.replyID, t.archived.uuid)
	c.equal(t.to.title, t.replyID, t.onNext.ID)
	if t.delivery.id != "" {
		c.equal(t.to.title+"'s own", t.replyID, t.delivery.id)
	}
	if t.replyID == "" {
		c.wrong = append(c.wrong, "the response names no id")
	}
	return c
}

func (t *trip) checkBytes() check {
	body := t.request.body
	digest := sha256.Sum256(body)
	c := check{name: "bytes", count: fmt.Sprint(len(body))}
	c.equal("handler", string(body), string(t.seen.payload))
	c.equal("second group", string(body), string(t.archived.payload))
	c.equal("next handler", string(body), string(t.opened.Payload))
	if t.onKafka.Claim == "" {
		c.equal("Kafka", string(body), string(t.onKafka.Body))
		c.equal(t.to.title, string(body), string(t.onNext.Body))
	} else {
		c.equal("store", string(body), string(t.stored))
	}
	for _, w := range []wire{t.onKafka, t.onNext} {
		c.equal("sha256", hex.EncodeToString(digest[:]), w.SHA256)
		c.equal("size", fmt.Sprint(len(body)), fmt.Sprint(w.Size))
	}
	return c
}

// notForwarded are the headers of the demo's requests that stay behind.
var notForwarded = []string{"authorization", "content-type"}

func (t *trip) checkHeaders() check {
	want := make(map[string]string)
	for _, h := range t.request.headers() {
		if name := strings.ToLower(h.name); !slices.Contains(notForwarded, name) {
			want[name] = h.value
		}
	}
	c := check{name: "headers", count: fmt.Sprint(len(want))}
	c.equalMaps("Kafka", want, t.onKafka.Headers)
	c.equalMaps("handler", want, t.seen.headers())
	c.equalMaps(t.to.title, want, t.onNext.Headers)
	for _, w := range []wire{t.onKafka, t.onNext} {
		c.equal("content type", t.request.get("Content-Type"), w.ContentType)
	}
	return c
}

// checkMetadata compares the headers beside the JSON, and what the handler was given with
// what the handler of the next service is given. The handler adds one entry of its own.
func (t *trip) checkMetadata() check {
	kafka := recordHeaders(t.record)
	c := check{name: "metadata", count: fmt.Sprint(len(t.seen.metadata))}
	c.equal("Kafka key", t.onKafka.TenantID+"/"+t.onKafka.SourceID, string(t.record.Key))
	c.equalMaps("Kafka header", t.onKafka.attributes(), kafka)
	kafka[handledBy] = handlerName
	if t.to.beside != everything {
		c.equalMaps(t.to.title+": watermill_metadata", map[string]string{handledBy: handlerName}, t.onNext.Metadata)
		delete(kafka, handledBy)
	}
	if t.to.beside != nothing {
		c.equalMaps(t.to.title+" header", kafka, t.delivery.attributes)
	}

	seen := maps.Clone(t.seen.metadata)
	seen[handledBy] = handlerName
	c.equalMaps("next handler", withoutReceipt(seen), withoutReceipt(t.opened.Metadata))
	return c
}

// withoutReceipt leaves out what differs from broker to broker: the name of the stored copy.
func withoutReceipt(metadata map[string]string) map[string]string {
	m := maps.Clone(metadata)
	delete(m, envelope.MetadataReceipt)
	return m
}

// checkClaim is for a body that is too large for a message: both brokers have a reference to
// it, and to one and the same object.
func (t *trip) checkClaim() check {
	c := check{name: "claim"}
	c.equal(t.to.title, t.onKafka.Claim, t.onNext.Claim)
	c.equal("body on Kafka", "", string(t.onKafka.Body))
	c.equal("body on "+t.to.title, "", string(t.onNext.Body))
	return c
}

func (t *trip) checkJSON() check {
	c := check{name: "JSON", count: fmt.Sprint(len(t.record.Value))}
	if !bytes.Equal(t.record.Value, t.withoutMetadata()) {
		c.wrong = append(c.wrong, "the text on "+t.to.title+" is not the text on Kafka")
	}
	return c
}

// withoutMetadata is the JSON on the next transport, without the member that has what the handler
// added where nothing else can carry it.
func (t *trip) withoutMetadata() []byte {
	if t.to.beside == everything {
		return t.delivery.body
	}
	member := fmt.Sprintf(`"watermill_metadata":{"%s":"%s"},`, handledBy, handlerName)
	return bytes.Replace(t.delivery.body, []byte(member), nil, 1)
}

// headers returns the forwarded headers, which an open message has as JSON text.
func (s sighting) headers() map[string]string {
	m := make(map[string]string)
	if text := s.metadata["ankusa_headers"]; text != "" {
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			m["error"] = err.Error()
		}
	}
	return m
}

func recordHeaders(r *kgo.Record) map[string]string {
	m := make(map[string]string, len(r.Headers))
	for _, h := range r.Headers {
		m[h.Key] = string(h.Value)
	}
	return m
}

// brief quotes the start of s.
func brief(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%.40q...", s)
	}
	return fmt.Sprintf("%q", s)
}
