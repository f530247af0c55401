package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// maxUnreachable is how many events in a row are tried whose publisher cannot be reached, before
// the others are not tried.
const maxUnreachable = 3

// A relayRun is one run of a relay.
type relayRun struct {
	*engine
	relay *Relay
	away  int // how many batches in a row found no publisher
	batch
}

// A batch is what becomes of a claim.
type batch struct {
	claim  *claim
	done   []row           // published
	back   []row           // to be given back
	held   map[string]bool // subjects of which an event was not published
	missed int             // how many events in a row found no publisher
	reason error           // what the last of them was told
}

func newBatch(c *claim) batch { return batch{claim: c, held: make(map[string]bool)} }

// A call is what one call of the publisher takes.
type call struct {
	topic    string
	rows     []row
	messages []*message.Message
}

// handle publishes a batch.
func (r *relayRun) handle(c *claim) time.Duration {
	r.batch = newBatch(c)
	ctx, cancel := context.WithDeadline(context.WithoutCancel(r.stop), c.until)
	defer cancel()
	for _, calls := range r.plan(ctx, c.rows, r.fail) {
		r.publish(ctx, calls)
	}
	r.delivered(c, r.done)
	r.release(c, r.back)
	if r.missed == 0 {
		if r.away > 0 {
			r.log.Info("outbox: the publisher can be reached again", "failures", r.away)
		}
		r.away = 0
		if len(c.rows) >= r.config.BatchSize {
			return 0
		}
		return r.config.MinCycleDelay
	}
	if r.away == 0 {
		r.log.Error("outbox: the publisher cannot be reached", "error", r.reason)
	}
	r.away++
	return min(r.config.PollInterval<<min(r.away-1, 10), max(maxOutage, r.config.PollInterval))
}

// plan makes the messages and returns the calls for them; of a row that there is no message of it
// calls fail. A subject's events go into one call in
// their order, as long as their topic is the same; where it changes, into a later one.
func (r *relayRun) plan(ctx context.Context, rows []row, fail func(row, error)) []*call {
	type place struct {
		topic string
		wave  int
	}
	last := make(map[string]place) // of a subject
	var waves []map[string]*call
	var calls [][]*call // of each wave
	for _, row := range rows {
		if r.heldBack(row) {
			continue
		}
		topic, msg, err := r.form(row)
		if err != nil {
			r.hold(row)
			fail(row, err)
			continue
		}
		msg.SetContext(ctx)
		wave := 0
		if r.relay.config.Ordered && row.subject != "" {
			before, ok := last[row.subject]
			wave = before.wave
			if ok && before.topic != topic {
				wave++
			}
			last[row.subject] = place{topic, wave}
		}
		if wave == len(waves) {
			waves, calls = append(waves, make(map[string]*call)), append(calls, nil)
		}
		to := waves[wave][topic]
		if to == nil {
			to = &call{topic: topic}
			waves[wave][topic] = to
			calls[wave] = append(calls[wave], to)
		}
		to.rows, to.messages = append(to.rows, row), append(to.messages, msg)
	}
	var planned []*call
	for _, wave := range calls {
		planned = append(planned, wave...)
	}
	return planned
}

// form makes the message of a row, or says why there is none.
func (r *relayRun) form(row row) (topic string, msg *message.Message, err error) {
	if row.envelope == nil {
		return "", nil, fmt.Errorf("%s", row.reason)
	}
	defer recovered(&err)
	if topic = r.relay.config.Topic(row.envelope); topic == "" {
		return "", nil, fmt.Errorf("no topic for type %.128q", row.envelope.EventType)
	}
	msg, err = r.relay.config.Form(row.envelope)
	if err == nil && msg == nil {
		err = fmt.Errorf("no message for type %.128q", row.envelope.EventType)
	}
	return topic, msg, err
}

// publish makes a call, and when it fails one call for each event.
func (r *relayRun) publish(ctx context.Context, c *call) {
	if !r.anyHeld(c) && r.goesOn() {
		err := r.send(c.topic, c.messages...)
		if err == nil {
			r.done = append(r.done, c.rows...)
			r.missed = 0
			return
		}
		if len(c.rows) == 1 {
			r.fail(c.rows[0], err)
			return
		}
	}
	for _, row := range c.rows {
		switch {
		case r.heldBack(row):
		case !r.goesOn():
			r.back = append(r.back, row)
			r.hold(row)
		default:
			r.publishAlone(ctx, row)
		}
	}
}

// publishAlone publishes one event, by a new message: what the publisher did to the one before
// nobody knows.
func (r *relayRun) publishAlone(ctx context.Context, row row) {
	topic, msg, err := r.form(row)
	if err == nil {
		msg.SetContext(ctx)
		err = r.send(topic, msg)
	}
	if err != nil {
		r.fail(row, err)
		return
	}
	r.done = append(r.done, row)
	r.missed = 0
}

// goesOn reports whether to try one more event of the batch.
func (r *relayRun) goesOn() bool {
	return r.stop.Err() == nil && r.remains(r.claim) && r.missed < maxUnreachable
}

func (r *relayRun) send(topic string, messages ...*message.Message) (err error) {
	defer recovered(&err)
	return r.relay.pub.Publish(topic, messages...)
}

// fail settles an event that could not be published.
func (r *relayRun) fail(row row, err error) {
	r.hold(row)
	if row.envelope != nil && r.relay.config.Outage(err) {
		r.missed, r.reason = r.missed+1, err
		r.postpone(r.claim, row, err.Error())
		return
	}
	r.failed(r.claim, row, err.Error())
}

// hold keeps the later events of the row's subject from being published.
func (r *relayRun) hold(row row) {
	if r.relay.config.Ordered && row.subject != "" {
		r.held[row.subject] = true
	}
}

// heldBack reports whether an earlier event of the row's subject was not published. Such a row
// is given back.
func (r *relayRun) heldBack(row row) bool {
	held := row.subject != "" && r.held[row.subject]
	if held {
		r.back = append(r.back, row)
	}
	return held
}

func (r *relayRun) anyHeld(c *call) bool {
	for _, row := range c.rows {
		if row.subject != "" && r.held[row.subject] {
			return true
		}
	}
	return false
}

// recovered turns a panic into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s", panicText(p))
	}
}
