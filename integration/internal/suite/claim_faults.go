package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// While the store is down nothing is published that could not be redeemed, and what was
// published waits: it is not poisoned, and all of it is handled when the store is back.
func claimOutage(t *testing.T, s ClaimServers) {
	ctx := Context(t)
	topic, poisonTopic := topicName(t, "hooks"), topicName(t, "poison")
	store := s.Store(t)
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: store, InlineMaxBytes: -1})
	pub := checkedIn(t, s.Broker, cc)
	l := newLedger()
	began, stopped := make(chan struct{}, 1), make(chan struct{})
	handler := func(msg *message.Message) error {
		select {
		case began <- struct{}{}:
		default:
		}
		<-stopped // so that the store goes down between two messages
		return l.handler("waits")(msg)
	}
	poisoned := s.Peer.Watch(ctx, t, poisonTopic)
	failed := make(chan failure, 1024)
	stack := append([]message.HandlerMiddleware{tells(failed)}, hookStack(t, cc, pub, poisonTopic)...)
	consumer(ctx, t, s.Broker, "waits", topic, handler, stack...)

	var msgs []*message.Message
	for i := range Count(300) {
		msgs = append(msgs, hook(100*i)) // the first is empty, and a claim all the same
	}
	publish(t, pub, topic, msgs...)
	select {
	case <-began:
	case <-ctx.Done():
		close(stopped)
		t.Fatal("nothing is handled: ", ctx.Err())
	}
	err := store.Outage.Stop()
	close(stopped)
	if err != nil {
		t.Fatal(err)
	}
	late := hook(3 << 20)
	for range 2 {
		if err := pub.Publish(topic, late); err == nil || !envelope.IsTransient(err) {
			t.Fatalf("published while the store was down: %v, want a transient error", err)
		}
	}
	for range 3 { // it fails, the message comes back, and it fails again
		select {
		case f := <-failed:
			if !envelope.IsTransient(f.err) {
				t.Fatalf("a message failed with %v, want a transient error", f.err)
			}
		case <-ctx.Done():
			t.Fatal("nothing fails while the store is down: ", ctx.Err())
		}
	}
	if n := l.handledBy("waits"); n == len(msgs) {
		t.Error("all messages were handled while the store was down")
	}
	if err := store.Outage.Start(ctx); err != nil {
		t.Fatal(err)
	}
	publish(t, pub, topic, late)
	l.gets(ctx, t, "after the outage", bodiesOf(append(msgs, late)...))
	s.Peer.Put(ctx, t, poisonTopic, Raw{Body: Broken("end")}) // nothing else may come before it
	if got := poisoned(1)[0]; string(got.Body) != string(Broken("end")) {
		t.Errorf("the poison topic has %.300q", got.Body)
	}
	store.holds(ctx, t, 2, "two packs; what was refused left nothing")
}

// A failure is the error of one attempt.
type failure struct{ err error }

// tells is a middleware that tells of each message that failed for all inside it.
func tells(failed chan<- failure) message.HandlerMiddleware {
	return func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			produced, err := h(msg)
			if err != nil {
				select {
				case failed <- failure{err}:
				default:
				}
			}
			return produced, err
		}
	}
}

// Each damaged object, and each reference that leads nowhere, costs its own message: it goes
// to the poison topic, with its claim and the reason, and all others are handled.
func claimDamage(t *testing.T, s ClaimServers) {
	ctx := Context(t)
	topic, poisonTopic := topicName(t, "hooks"), topicName(t, "poison")
	store := s.Store(t)
	var book LogBook
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: store, InlineMaxBytes: -1, Logger: book.Logger()})
	pub := checkedIn(t, s.Broker, cc)
	l := newLedger()
	consumer(ctx, t, s.Broker, "damage", topic, l.handler("damage"))() // the topic keeps what comes
	watch, poisoned := s.Peer.Watch(ctx, t, topic), s.Peer.Watch(ctx, t, poisonTopic)

	good := []*message.Message{hook(10_000)}
	publish(t, pub, topic, good[0])
	intact := claimsOf(t, watch(1))[good[0].UUID]
	reasons := map[string]claimcheck.Code{} // by id
	claims := map[string]string{}
	const inOneRead, inTwo = 10_000, 100_000
	for _, damage := range []struct {
		size   int
		reason claimcheck.Code
		change func(key string, object []byte)
	}{
		{inOneRead, claimcheck.CodeNotFound, func(key string, _ []byte) {
			if err := store.Delete(ctx, key); err != nil {
				t.Fatal(err)
			}
		}},
		{inOneRead, claimcheck.CodeNotFound, func(key string, object []byte) { store.replace(ctx, t, key, object[:2000]) }},
		{inTwo, claimcheck.CodeNotFound, func(key string, object []byte) { store.replace(ctx, t, key, object[:90_000]) }},
		{inOneRead, claimcheck.CodeNotFound, func(key string, _ []byte) { store.replace(ctx, t, key, nil) }},
		{inOneRead, claimcheck.CodeIntegrity, func(key string, object []byte) {
			object[2000] ^= 1
			store.replace(ctx, t, key, object)
		}},
		{inTwo, claimcheck.CodeIntegrity, func(key string, object []byte) {
			object[90_000] ^= 1
			store.replace(ctx, t, key, object)
		}},
	} {
		bad, next := hook(damage.size), hook(10_000)
		publish(t, pub, topic, bad)
		claim := claimsOf(t, watch(1))[bad.UUID].Claim
		ref, err := claimcheck.ParseRef(claim)
		if err != nil {
			t.Fatal(err)
		}
		damage.change(ref.Key(), store.object(ctx, t, ref.Key()))
		publish(t, pub, topic, next)
		watch(1)
		good = append(good, next)
		reasons[bad.UUID], claims[bad.UUID] = damage.reason, claim
	}
	// References of another producer.
	ref, err := claimcheck.ParseRef(intact.Claim)
	if err != nil {
		t.Fatal(err)
	}
	for _, foreign := range []struct {
		reason claimcheck.Code
		claim  string
		size   int
	}{
		{claimcheck.CodeNotFound, "urn:ankusa:claim:v1:globex:" + ref.ClaimID(), 10_000},                // another tenant's name on it
		{claimcheck.CodeNotFound, strings.TrimSuffix(intact.Claim, ref.ClaimID()[23:]) + "ZZZ", 10_000}, // past the end of the pack
		{claimcheck.CodeIntegrity, intact.Claim, 9_999},                                                 // although the digest is right
	} {
		id := envelope.NewID()
		s.Peer.Put(ctx, t, topic, Raw{Body: fmt.Appendf(nil,
			`{"v":1,"id":%q,"source_id":"s","received_at":1,"size":%d,"sha256":%q,"claim":%q}`, id, foreign.size, intact.SHA256, foreign.claim)})
		reasons[id], claims[id] = foreign.reason, foreign.claim
	}
	broken := map[string]string{} // the reasons of what cannot be read, by its bytes
	for claim, reason := range map[string]envelope.Code{
		"urn:ankusa:claim:v1:../acme:" + ref.ClaimID(): envelope.CodeInvalidField,
		"s3://another-bucket/" + ref.Key():             envelope.CodeInvalidField,
		"urn:ankusa:claim:v1:globex:" + ref.ClaimID():  envelope.CodeTenantMismatch,
	} {
		body := fmt.Appendf(nil,
			`{"v":1,"id":"foreign","source_id":"s","tenant_id":"acme","received_at":1,"size":10000,"sha256":%q,"claim":%q}`, intact.SHA256, claim)
		s.Peer.Put(ctx, t, topic, Raw{Body: body})
		broken[string(body)] = string(reason)
	}
	last := hook(10_000)
	publish(t, pub, topic, last)
	good = append(good, last)

	consumer(ctx, t, s.Broker, "damage", topic, l.handler("damage"), hookStack(t, cc, pub, poisonTopic)...)
	l.gets(ctx, t, "the intact ones", bodiesOf(good...))
	for _, raw := range poisoned(len(reasons) + len(broken)) {
		why, _ := raw.Header(wmmw.ReasonForPoisonedKey)
		if reason, ok := broken[string(raw.Body)]; ok {
			if !strings.Contains(why, reason) {
				t.Errorf("%s is poisoned for %q, want %s", raw.Body, why, reason)
			}
			delete(broken, string(raw.Body))
			continue
		}
		e, err := envelope.ParseWire(raw.Body)
		if err != nil {
			t.Fatal(err)
		}
		if e.Claim == "" || e.Claim != claims[e.ID] {
			t.Errorf("%s is poisoned with the claim %q, want %q", e.ID, e.Claim, claims[e.ID])
		}
		if !strings.Contains(why, string(reasons[e.ID])) {
			t.Errorf("%s is poisoned for %q, want %s", e.ID, why, reasons[e.ID])
		}
		delete(reasons, e.ID)
	}
	if len(reasons)+len(broken) > 0 {
		t.Errorf("not poisoned: %v %v", reasons, broken)
	}
	for id, claim := range claims {
		if log := book.String(); !strings.Contains(log, id) || !strings.Contains(log, claim) {
			t.Errorf("the log does not name %s and %s:\n%s", id, claim, log)
		}
	}
}

// A broker that refuses the message after its body was put leaves an orphan, which retention
// removes. The next attempt checks in again, and the caller's message is as it was.
func claimRefused(t *testing.T, s ClaimServers) {
	ctx := Context(t)
	topic := topicName(t, "hooks")
	store := s.Store(t)
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: store})
	pub := checkedIn(t, s.Broker, cc)
	allow := s.Peer.Refuse(ctx, t, topic)
	msg := hook(3 << 20)
	want := bodiesOf(msg)
	if err := pub.Publish(topic, msg); err == nil {
		t.Fatal("the broker did not refuse")
	}
	store.holds(ctx, t, 1, "the orphan")
	allow()
	l := newLedger()
	consumer(ctx, t, s.Broker, "again", topic, l.handler("again"), hookStack(t, cc, pub, topic+".poison")...)
	publish(t, pub, topic, msg)
	l.gets(ctx, t, "the second attempt", want)
	store.holds(ctx, t, 2, "the orphan and the body")
}

// A put whose answer is lost is a failure: nothing is published, and the next attempt stores
// the body under another key.
func claimLostAnswer(t *testing.T, s ClaimServers) {
	ctx := Context(t)
	topic := topicName(t, "hooks")
	store := s.Store(t)
	lost := &lostAnswer{Store: store}
	lost.left.Store(1)
	pub := checkedIn(t, s.Broker, claimCheck(t, hookmw.ClaimCheckConfig{Store: lost}))
	watch := s.Peer.Watch(ctx, t, topic)
	msg, next := hook(3<<20), hook(3<<20)
	if err := pub.Publish(topic, msg, next); !envelope.IsTransient(err) {
		t.Fatalf("published without an answer of the store: %v, want a transient error", err)
	}
	store.holds(ctx, t, 1, "it was stored all the same")
	orphan := store.keys(ctx, t)[0]
	l := newLedger()
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: store})
	consumer(ctx, t, s.Broker, "again", topic, l.handler("again"), hookStack(t, cc, pub, topic+".poison")...)
	publish(t, pub, topic, msg, next)
	l.gets(ctx, t, "the second attempt", bodiesOf(msg, next))
	for id, e := range claimsOf(t, watch(2)) { // the first that were published
		if ref, err := claimcheck.ParseRef(e.Claim); err != nil || ref.Key() == orphan {
			t.Errorf("%s was published with %q, %v; want it outside %s", id, e.Claim, err, orphan)
		}
	}
	store.holds(ctx, t, 2, "the orphan and the pack")
}

// lostAnswer is a store whose next puts are done, and are said to have failed.
type lostAnswer struct {
	claimcheck.Store
	left atomic.Int32
}

func (s *lostAnswer) Put(ctx context.Context, key string, obj *io.SectionReader) error {
	err := s.Store.Put(ctx, key, obj)
	if s.left.Add(-1) < 0 {
		return err
	}
	return &claimcheck.Error{
		Code: claimcheck.CodeUnavailable, Op: "put", Key: key,
		Err: errors.Join(err, errors.New("the connection was lost")),
	}
}
