package awssuite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/requeuer"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// Deduplication checks by what is stored that nothing is taken for a duplicate that is none:
// messages come back into the FIFO queue that they were received from, within its window of
// five minutes, by a redrive of a poison queue, by Watermill's requeuer and by their handler.
// What a handler publishes that runs twice for one delivery is stored once.
func Deduplication(t *testing.T, url string) {
	ctx := suite.Context(t)
	in, next, poison, failed := topicName(t, "in"), topicName(t, "next"), topicName(t, "poison"), topicName(t, "failed")
	b := SQS(url, Options{FIFO: true, Visibility: soon})
	pub := b.Publisher(t)
	poisonQueue, err := wmmw.PoisonQueueWithFilter(pub, poison, hookmw.ShouldPoison)
	if err != nil {
		t.Fatal(err)
	}
	const each = 10
	copies := map[string]int{"redrive": 2, "requeue": 2, "again": 2, "next": 1, "twice": 1} // of each kind in the queue
	var mu sync.Mutex
	runs, stored := map[string]int{}, map[string]map[string]bool{}
	done, left := make(chan struct{}), len(copies)*each
	h := func(msg *message.Message) error {
		kind := string(msg.Payload)
		mu.Lock()
		runs[msg.UUID]++
		run := runs[msg.UUID]
		if stored[kind] == nil {
			stored[kind] = map[string]bool{}
		}
		stored[kind][msg.Metadata[envelope.MetadataReceipt]] = true
		mu.Unlock()
		var err error
		last := run == 2
		switch kind {
		case "redrive":
			if run == 1 {
				err = envelope.Permanent(errors.New("not yet"))
			}
		case "requeue":
			if run == 1 {
				err = pub.Publish(failed, msg)
			}
		case "again":
			if run == 1 {
				err = pub.Publish(in, msg)
			}
		case "next":
			err, last = pub.Publish(next, msg), true
		case "twice": // published twice by one delivery, which is delivered twice
			err = errors.Join(pub.Publish(next, msg), pub.Publish(next, msg))
			if run == 1 && err == nil {
				err = envelope.Transient(errors.New("not yet"))
			}
		}
		if last {
			mu.Lock()
			defer mu.Unlock()
			if left--; left == 0 {
				close(done)
			}
		}
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: suite.Timeout}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	consumer := router.AddConsumerHandler("kinds", in, b.NewSubscriber(t, ""), h)
	consumer.AddMiddleware(poisonQueue, hookmw.Malformed{}.Middleware)
	router.AddHandler("redrive", poison, b.NewSubscriber(t, ""), in, pub, func(msg *message.Message) ([]*message.Message, error) {
		return []*message.Message{msg}, nil
	})
	if _, err := requeuer.NewRequeuer(requeuer.Config{
		Subscriber: b.NewSubscriber(t, ""), SubscribeTopic: failed, Publisher: pub, Router: router,
		GeneratePublishTopic: func(requeuer.GeneratePublishTopicParams) (string, error) { return in, nil },
	}, watermill.NopLogger{}); err != nil {
		t.Fatal(err)
	}
	running := make(chan error, 1)
	go func() { running <- router.Run(context.WithoutCancel(ctx)) }()
	t.Cleanup(func() {
		if err := errors.Join(router.Close(), <-running); err != nil {
			t.Error(err)
		}
	})
	for n := range each {
		for kind := range copies {
			msg := message.NewMessage(fmt.Sprintf("%s-%d", kind, n), []byte(kind))
			msg.Metadata.Set(envelope.MetadataOrderingKey, msg.UUID) // a group waits for the one that failed
			if err := pub.Publish(in, msg); err != nil {
				t.Fatal(err)
			}
		}
	}
	select {
	case <-done:
	case <-ctx.Done():
		mu.Lock()
		defer mu.Unlock()
		t.Fatalf("%d messages are not done after the runs %v: %v", left, runs, ctx.Err())
	}
	empty := time.NewTicker(20 * time.Millisecond)
	defer empty.Stop()
	for _, topic := range []string{in, poison, failed} { // the last ones are deleted after their handlers
		for q := ensure(ctx, t, url, topic, true); q.stored(ctx, t) > 0; {
			<-empty.C
		}
	}
	if got := ensure(ctx, t, url, next, true).stored(ctx, t); got != 2*each {
		t.Errorf("%d messages are stored for the next step, want %d", got, 2*each)
	}
	mu.Lock()
	defer mu.Unlock()
	for kind, n := range copies {
		if len(stored[kind]) != n*each {
			t.Errorf("%s: %d copies were stored, want %d", kind, len(stored[kind]), n*each)
		}
	}
}
