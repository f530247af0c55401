package suite

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// mostOnWire is more than a message with a claim takes on the wire.
const mostOnWire = 4096

// Bodies of any size go through the broker with its default limits, and each group of
// subscribers gets all of them.
func claimTwoGroups(t *testing.T, s ClaimServers) {
	ctx := Context(t)
	topic := topicName(t, "hooks")
	store := s.Store(t)
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: store})
	pub := checkedIn(t, s.Broker, cc)
	watch := s.Peer.Watch(ctx, t, topic)
	groups := map[string]*ledger{"billing": newLedger(), "audit": newLedger()}
	for name, l := range groups {
		consumer(ctx, t, s.Broker, name, topic, l.handler(name), hookStack(t, cc, pub, topic+".poison")...)
	}

	var msgs []*message.Message
	for _, n := range []int{0, 1, 65_536, 65_537, 3 << 20, 20 << 20} {
		msgs = append(msgs, hook(n))
	}
	want := bodiesOf(msgs...)
	before := maps.Clone(msgs[5].Metadata)
	publish(t, pub, topic, msgs...)
	if string(msgs[5].Payload) != want[msgs[5].UUID] || !maps.Equal(msgs[5].Metadata, before) {
		t.Error("publishing changed the caller's message")
	}
	for name, l := range groups {
		l.gets(ctx, t, name, want)
	}
	raws := watch(len(msgs))
	found := claimsOf(t, raws)
	for _, msg := range msgs {
		e := found[msg.UUID]
		switch large := len(msg.Payload) > 65_536; {
		case e == nil:
			t.Errorf("the message of %d bytes is not on the wire", len(msg.Payload))
		case large != (e.Claim != "") || e.Size != int64(len(msg.Payload)) || e.SHA256 != digestOf(msg.Payload):
			t.Errorf("the body of %d bytes: claim %q, size %d, digest %s", len(msg.Payload), e.Claim, e.Size, e.SHA256)
		}
	}
	for _, raw := range raws {
		if len(raw.Body) > mostOnWire && !bytes.Contains(raw.Body, []byte(`"body_base64"`)) {
			t.Errorf("a claim of %d bytes on the wire", len(raw.Body))
		}
	}
	store.holds(ctx, t, 2, "one pack for what is below its limit, one for what is above, and reading deletes nothing")
}

// A hook whose handler fails goes to the poison topic as the same claim. Its body is there
// for whoever reads that topic, and was not stored again.
func claimPoison(t *testing.T, s ClaimServers) {
	ctx := Context(t)
	topic, poisonTopic := topicName(t, "in"), topicName(t, "poison")
	store := s.Store(t)
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: store})
	pub := checkedIn(t, s.Broker, cc)
	watch, poisoned := s.Peer.Watch(ctx, t, topic), s.Peer.Watch(ctx, t, poisonTopic)
	l := newLedger()
	fails := func(msg *message.Message) error {
		if err := l.handler("fails")(msg); err != nil {
			return err
		}
		return errOwn
	}
	consumer(ctx, t, s.Broker, "fails", topic, fails, hookStack(t, cc, pub, poisonTopic)...)
	dead := newLedger()
	consumer(ctx, t, s.Broker, "dead", poisonTopic, dead.handler("dead"), hookStack(t, cc, pub, poisonTopic+".poison")...)

	msg := hook(3 << 20)
	publish(t, pub, topic, msg)
	want := bodiesOf(msg)
	l.gets(ctx, t, "the handler that fails", want)
	dead.gets(ctx, t, "the handler of the poison topic", want)
	first, raw := claimsOf(t, watch(1))[msg.UUID], poisoned(1)[0]
	second := claimsOf(t, []Raw{raw})[msg.UUID]
	if first == nil || second == nil || first.Claim == "" || second.Claim != first.Claim {
		t.Errorf("the poison topic has %+v, want the claim of %+v", second, first)
	}
	if reason, _ := raw.Header(wmmw.ReasonForPoisonedKey); !strings.Contains(reason, strings.ToValidUTF8(errOwn.Error(), "\uFFFD")) {
		t.Errorf("the reason is %q, want the handler's", reason)
	}
	if calls := l.handledBy("fails"); calls != 1+ownRetries {
		t.Errorf("the handler was called %d times with its body, want %d", calls, 1+ownRetries)
	}
	store.holds(ctx, t, 1, "the poison queue reuses the claim")
}

// A router passes hooks on to another broker. An untouched one keeps its claim, a changed
// body is a body of its own.
func claimBridge(t *testing.T, s ClaimServers) {
	ctx := Context(t)
	topic, next := topicName(t, "in"), topicName(t, "next")
	store := s.Store(t)
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: store})
	pub := checkedIn(t, s.Broker, cc)
	watch, passed := s.Peer.Watch(ctx, t, topic), s.NextPeer.Watch(ctx, t, next)
	l := newLedger()
	consumer(ctx, t, s.Next, "next", next, l.handler("next"), hookStack(t, cc, pub, next+".poison")...)
	passOn(ctx, t, s.Broker, topic, checkedIn(t, s.Next, cc), next, func(msg *message.Message) ([]*message.Message, error) {
		if msg.Metadata.Get("change") != "" {
			msg.Payload = append([]byte("changed "), msg.Payload...)
		}
		return message.Messages{msg}, nil
	}, hookStack(t, cc, pub, topic+".poison")...)

	same, changed := hook(3<<20), hook(100_000)
	changed.Metadata.Set("change", "yes")
	publish(t, pub, topic, same)
	publish(t, pub, topic, changed)
	l.gets(ctx, t, "the next service", map[string]string{
		same.UUID: string(same.Payload), changed.UUID: "changed " + string(changed.Payload),
	})
	before, after := claimsOf(t, watch(2)), claimsOf(t, passed(2))
	if before[same.UUID].Claim == "" || after[same.UUID].Claim != before[same.UUID].Claim {
		t.Errorf("an untouched hook was passed on with the claim %q, want %q", after[same.UUID].Claim, before[same.UUID].Claim)
	}
	if after[changed.UUID].Claim == before[changed.UUID].Claim || after[changed.UUID].Claim == "" {
		t.Errorf("a changed body was passed on with the claim %q, which was %q", after[changed.UUID].Claim, before[changed.UUID].Claim)
	}
	store.holds(ctx, t, 3, "two hooks, and the body that was changed")
}

// A consumer that has no claim check yet gives no handler the empty payload of a claim: the
// message goes to the poison topic as it came, and is handled from there by one that has.
func claimNotEnabled(t *testing.T, s ClaimServers) {
	ctx := Context(t)
	topic, poisonTopic := topicName(t, "hooks"), topicName(t, "poison")
	store := s.Store(t)
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: store})
	pub := checkedIn(t, s.Broker, cc)
	poisoned := s.Peer.Watch(ctx, t, poisonTopic)
	redriven, old := newLedger(), newLedger()
	consumer(ctx, t, s.Broker, "new", poisonTopic, redriven.handler("new"), hookStack(t, cc, pub, poisonTopic+".poison")...)
	queue, err := wmmw.PoisonQueueWithFilter(s.Broker.Publisher(t), poisonTopic, hookmw.ShouldPoison)
	if err != nil {
		t.Fatal(err)
	}
	consumer(ctx, t, s.Broker, "old", topic, old.handler("old"), queue, hookmw.Malformed{}.Middleware)
	large, small := hook(3<<20), hook(10)
	publish(t, pub, topic, large, small)
	old.gets(ctx, t, "the consumer without a claim check", bodiesOf(small))
	redriven.gets(ctx, t, "the consumer of the poison topic", bodiesOf(large))
	raw := poisoned(1)[0]
	if reason, _ := raw.Header(wmmw.ReasonForPoisonedKey); !strings.Contains(reason, string(envelope.CodeClaimNotEnabled)) {
		t.Errorf("the reason is %q, want %s", reason, envelope.CodeClaimNotEnabled)
	}
	store.holds(ctx, t, 1, "the one body")
}
