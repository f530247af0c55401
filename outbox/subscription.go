package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// A subscription hands the events of its claims out, one after the other.
type subscription struct {
	*engine
	values context.Context // of the messages
	out    chan *message.Message
}

// A verdict is what became of a message.
type verdict int

const (
	acked verdict = iota
	notAcked
	notTaken  // nobody took it
	leftAlone // it was not settled before the end of the subscription
)

// handle delivers a batch.
func (s *subscription) handle(c *claim) time.Duration {
	var done []row
	defer func() { s.delivered(c, done) }()
	for i, r := range c.rows {
		if s.stop.Err() != nil || !s.remains(c) {
			s.release(c, c.rows[i:])
			break
		}
		if r.envelope == nil {
			s.failed(c, r, r.reason)
			continue
		}
		switch v, text := s.dispatch(c, r); {
		case v == acked && s.config.SettleTogether:
			done = append(done, r)
		case v == acked:
			s.delivered(c, []row{r})
		case v == notAcked:
			s.failed(c, r, text)
		case v == notTaken:
			s.release(c, c.rows[i:])
			return s.config.PollInterval
		case v == leftAlone:
			s.log.Warn("outbox: the handler goes on after the end, the event waits out its lease", "id", r.id)
			s.observe(OutcomeUnsettled, 1)
		}
	}
	return s.config.MinCycleDelay
}

// dispatch hands out one message and waits for what becomes of it.
func (s *subscription) dispatch(c *claim, r row) (v verdict, text string) {
	begin := time.Now()
	deadline := begin.Add(s.config.DispatchTimeout)
	if c.until.Before(deadline) {
		deadline = c.until
	}
	k := &kept{}
	ctx, cancel := context.WithDeadline(withKept(s.values, k), deadline)
	defer cancel()
	msg := r.envelope.Message()
	msg.SetContext(ctx)

	// Whoever takes the message has half the time at least.
	untaken := time.NewTimer(time.Until(deadline) / 2)
	defer untaken.Stop()
	select {
	case s.out <- msg:
	case <-s.stop.Done():
		return notTaken, ""
	case <-untaken.C:
		return notTaken, ""
	}

	var closing <-chan time.Time
	stop := s.stop.Done()
	for {
		select {
		case <-msg.Acked():
			return acked, ""
		case <-msg.Nacked():
			return notAcked, k.String()
		case <-ctx.Done():
			if v, text, settled := verdictOf(msg, k); settled {
				return v, text
			}
			return notAcked, fmt.Sprintf("dispatch timeout: neither acked nor nacked in %v", time.Since(begin).Round(time.Millisecond))
		case <-stop:
			stop = nil
			timer := time.NewTimer(s.config.CloseTimeout)
			defer timer.Stop()
			closing = timer.C
		case <-closing:
			if v, text, settled := verdictOf(msg, k); settled {
				return v, text
			}
			return leftAlone, ""
		}
	}
}

// verdictOf is the verdict when the time is over, in which the message may have been settled all
// the same.
func verdictOf(msg *message.Message, k *kept) (v verdict, text string, settled bool) {
	select {
	case <-msg.Acked():
		return acked, "", true
	case <-msg.Nacked():
		return notAcked, k.String(), true
	default:
		return leftAlone, "", false
	}
}
