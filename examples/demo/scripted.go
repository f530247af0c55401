package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
)

// errDiffers is the result of a run in which something was not what it should be.
var errDiffers = errors.New("something differs")

// A stop is one hook of the demo.
type stop struct{ file, title string }

var stops = []stop{
	{"github-push", "GitHub push"},
	{"stripe-payment", "Stripe event"},
	{"shopify-order", "Shopify order, not ASCII"},
	{"slack-command", "Slack command, url-encoded"},
	{"every-byte", "Standard Webhooks, all 256 byte values"},
	{"empty", "Standard Webhooks, an empty body"},
	{"large", "Standard Webhooks, 3 MiB"},
	{"huge", "Standard Webhooks, 20 MiB"},
}

// A demo sends hooks through a pipeline and looks at them at each place.
type demo struct {
	*printer
	pipeline *pipeline
	to       transport // the next one
	hooks    *kafkaWitness
	poison   *kafkaWitness
	archive  *kafkaWitness // the poison topic of the second group
	next     witness
	seen     chan sighting // of the handler
	archived chan sighting // of the handler of the second group
	tracing  *tracing
	objects  []string // keys of the bodies that were stored
	n        int      // of the step
	wrong    int      // steps that were not right
	github   int32    // partition of the first hook, and so of all of its source
}

// runDemo sends every request of the requests directory through a pipeline made of c, prints what
// becomes of it and what was counted, and returns errDiffers when a hook is not the same at both ends.
func runDemo(ctx context.Context, c config, counted prometheus.Gatherer, out io.Writer) (err error) {
	begin := time.Now()
	d := &demo{printer: newPrinter(out), to: c.transport, seen: make(chan sighting, 16), archived: make(chan sighting, 16)}
	c.watch = func(msg *message.Message) { d.seen <- see(msg) }
	c.archive = func(msg *message.Message) { d.archived <- see(msg) }
	c.log = slog.New(slog.DiscardHandler) // what is refused is a part of the report
	c.secrets = func(s source) string { return s.testSecret }
	d.tracing = newTracing()
	c.spans = d.tracing
	if d.pipeline, err = start(ctx, c); err != nil {
		return err
	}
	if err := d.openWitnesses(ctx, c); err != nil {
		return errors.Join(err, d.pipeline.closeAll())
	}
	defer func() { err = errors.Join(err, d.pipeline.closeAll(), d.closeWitnesses(c)) }()

	d.printf("%s\n%s\n%s\n", d.paint(bold, "HTTP request -> Kafka -> an ordinary Watermill handler -> "+c.transport.title),
		"What stands on them is read by "+clients(c.transport)+".",
		"Bodies over 64 KiB lie in "+c.bodies.where+", and are read there as the ZIP files that they are.")
	for _, s := range stops {
		if err := d.hook(ctx, c, s); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
	}
	if err := d.forged(ctx); err != nil {
		return fmt.Errorf("forged request: %w", err)
	}
	if err := d.malformed(ctx, c); err != nil {
		return fmt.Errorf("malformed message: %w", err)
	}
	if err := d.traced(ctx, c, stops[0]); err != nil {
		return fmt.Errorf("traced hook: %w", err)
	}
	if err := d.metrics(counted); err != nil {
		return err
	}
	return d.summary(time.Since(begin))
}

// clients names those that read what stands on Kafka and on the next transport.
func clients(t transport) string {
	switch t.client {
	case "franz-go":
		return "franz-go, which knows nothing of Watermill"
	case "GoChannel itself":
		return "franz-go, which knows nothing of Watermill, and by GoChannel itself"
	}
	return "franz-go and " + t.client + ", which know nothing of Watermill"
}

func (d *demo) openWitnesses(ctx context.Context, c config) (err error) {
	if d.hooks, err = witnessKafka(c.kafka, c.topic); err != nil {
		return err
	}
	if d.poison, err = witnessKafka(c.kafka, c.poison()); err != nil {
		return err
	}
	if d.archive, err = witnessKafka(c.kafka, c.archivePoison()); err != nil {
		return err
	}
	d.next, err = c.next.witness(ctx, c.out())
	return err
}

// closeWitnesses removes what the demo made on servers that go on without it, and the bodies,
// which no message is about any more.
func (d *demo) closeWitnesses(c config) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, key := range d.objects {
		err = errors.Join(err, c.bodies.store.Delete(ctx, key))
	}
	if c.temporary {
		err = errors.Join(err, d.hooks.remove(ctx, c.topic, c.poison(), c.archivePoison()), d.next.remove())
	}
	d.hooks.close()
	d.poison.close()
	d.archive.close()
	d.next.close()
	return err
}

// send sends a request file to the receiver.
func (d *demo) send(ctx context.Context, s stop) (*trip, error) {
	r, err := readRequest(s.file)
	if err != nil {
		return nil, err
	}
	r.sign(time.Now())
	q, err := r.to(d.pipeline.url)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	resp, err := client.Do(q.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	t := &trip{title: s.title, to: d.to, request: r, status: resp.StatusCode, reply: string(body)}
	var reply struct{ ID string }
	if json.Unmarshal(body, &reply) == nil {
		t.replyID = reply.ID
	}
	d.n++
	d.title(d.n, s.title)
	d.sent(t)
	return t, nil
}

// hook follows one hook from the request to the next transport.
func (d *demo) hook(ctx context.Context, c config, s stop) error {
	t, err := d.send(ctx, s)
	if err != nil {
		return err
	}
	if t.status != http.StatusAccepted {
		return fmt.Errorf("the receiver answered %d %s", t.status, t.reply)
	}
	if t.record, err = d.hooks.next(ctx); err != nil {
		return err
	}
	if t.onKafka, err = readWire(t.record.Value); err != nil {
		return err
	}
	for range 2 { // the two groups, whichever is first
		select {
		case t.seen = <-d.seen:
		case t.archived = <-d.archived:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the handlers: %w", ctx.Err())
		}
	}
	if t.delivery, err = d.next.next(ctx); err != nil {
		return err
	}
	if t.onNext, err = readWire(t.delivery.body); err != nil {
		return err
	}
	if err := t.open(ctx, d.pipeline.claims, c.bodies); err != nil {
		return err
	}
	if t.key != "" {
		d.objects = append(d.objects, t.key)
	}
	if d.n == 1 {
		d.github = t.record.Partition
	}
	checks := t.checks()
	d.trip(t, checks)
	d.judge(checks...)
	return nil
}

func (d *demo) judge(checks ...check) {
	if slices.ContainsFunc(checks, func(c check) bool { return len(c.wrong) > 0 }) {
		d.wrong++
	}
}

// forged sends a request with a wrong signature, which goes no further than the receiver.
// That it is not on Kafka shows in the next step.
func (d *demo) forged(ctx context.Context) error {
	t, err := d.send(ctx, stop{"forged", "GitHub push with a wrong signature"})
	if err != nil {
		return err
	}
	d.line("answer", "%s", t.reply)
	c := check{name: "refused"}
	c.equal("status", "401", fmt.Sprint(t.status))
	d.checks("right", []check{c})
	d.judge(c)
	return nil
}

// malformed puts a message on the topic that is none of ours: it ends in the poison topic as
// it was. It lies on the partition of the forged hook, which would come before it.
func (d *demo) malformed(ctx context.Context, c config) error {
	d.n++
	d.title(d.n, "A broken message, put on the topic by another program")
	sent := &kgo.Record{
		Topic: c.topic, Partition: d.github, Key: []byte("acme/github"),
		Value: []byte(`{"v":1,"id":"","source_id":"github"}`),
	}
	if err := d.hooks.put(ctx, sent); err != nil {
		return err
	}
	record, err := d.hooks.next(ctx)
	if err != nil {
		return err
	}
	d.line("kafka", "%s[%d]@%d  key %s  %s", record.Topic, record.Partition, record.Offset, record.Key, record.Value)
	poisoned, err := d.poison.next(ctx)
	if err != nil {
		return err
	}
	archived, err := d.archive.next(ctx)
	if err != nil {
		return err
	}
	reason := recordHeaders(poisoned)["reason_poisoned"]
	d.line("poison", "%s[%d]@%d  reason %s", poisoned.Topic, poisoned.Partition, poisoned.Offset, reason)

	refused := check{name: "no refused hook before it"}
	refused.equal("next record", string(sent.Value), string(record.Value))
	same := check{name: "bytes", count: fmt.Sprint(len(sent.Value))}
	same.equal("poison topic", string(sent.Value), string(poisoned.Value))
	same.equal("poison topic of the second group", string(sent.Value), string(archived.Value))
	key := check{name: "key"}
	key.equal("poison topic", string(sent.Key), string(poisoned.Key))
	why := check{name: "reason"}
	why.equal("poison topic", `envelope: invalid_field "id"`, reason)
	handler := check{name: "handler not called"}
	select {
	case s := <-d.seen:
		handler.wrong = append(handler.wrong, "it saw "+s.uuid)
	case s := <-d.archived:
		handler.wrong = append(handler.wrong, "the second group's saw "+s.uuid)
	default:
	}
	checks := []check{refused, same, key, why, handler}
	d.checks("right", checks)
	d.judge(checks...)
	return nil
}

func (d *demo) summary(took time.Duration) error {
	took = took.Round(10 * time.Millisecond)
	if d.wrong > 0 {
		d.printf("\n%s\n", d.paint(red, fmt.Sprintf("%d of %d steps DIFFER. %v", d.wrong, d.n, took)))
		return errors.Join(errDiffers, d.err)
	}
	d.printf("\n%s\n", d.paint(green, fmt.Sprintf(
		"%d hooks equal end to end, %d of them with the body in the store, 1 refused, 1 broken message kept in the poison topic. %v",
		len(stops), len(d.objects), took)))
	return d.err
}
