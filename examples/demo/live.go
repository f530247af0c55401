package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

// runLive takes real traffic until ctx ends, and then stops without losing a hook: requests
// under way are answered and messages under way are handled. What else was answered with 202
// is on Kafka, for the next run. An embedded Kafka ends with this process: then the run waits
// until all of it has been handled. From an embedded transport behind it hooks are thrown away.
func runLive(ctx context.Context, c config, embeddedKafka, embeddedNext bool) error {
	t := &traffic{log: c.log, pending: make(map[string]bool)}
	c.accepting, c.delivered = t.accepting, t.delivered
	if embeddedKafka {
		c.drain = t.drain
	}
	c.secrets = secretsFromEnv(c.log)
	p, err := start(ctx, c)
	if err != nil {
		return err
	}
	if embeddedNext {
		w, err := c.next.witness(ctx, c.out())
		if err != nil {
			return errors.Join(err, p.closeAll())
		}
		defer w.close()
		go func() {
			for { // what nobody reads stays in memory
				if _, err := w.next(context.WithoutCancel(ctx)); err != nil {
					return
				}
			}
		}()
	}
	c.log.Info("ready", "url", p.url, "kafka", strings.Join(c.kafka, ","), "topic", c.topic, c.transport.name, c.out())
	select {
	case <-ctx.Done():
	case err = <-p.failed:
	}
	c.log.Info("stopping")
	if err = errors.Join(err, p.closeAll()); err == nil {
		c.log.Info("stopped", "hooks", t.total)
	}
	return err
}

// secretsFromEnv reads the secrets of the sources from the environment. A source without
// one has the published secret of the requests directory, and says so.
func secretsFromEnv(log *slog.Logger) func(source) string {
	var missing []string
	for _, s := range sources {
		if os.Getenv(s.env) == "" {
			missing = append(missing, s.env)
		}
	}
	if len(missing) > 0 {
		log.Warn("the published test secrets are in use: anyone can sign", "not set", strings.Join(missing, " "))
	}
	return func(s source) string {
		if secret := os.Getenv(s.env); secret != "" {
			return secret
		}
		return s.testSecret
	}
}

// traffic follows hooks from the receiver to the next transport.
type traffic struct {
	log     *slog.Logger
	mu      sync.Mutex
	pending map[string]bool // ids of hooks that are not delivered yet
	total   int
}

// accepting notes a hook that is about to be published to Kafka, and what came of it.
func (t *traffic) accepting(msg *message.Message, publish func() error) error {
	t.mu.Lock()
	t.pending[msg.UUID] = true // before its delivery, which may come before publish returns
	t.mu.Unlock()
	err := publish()
	if err != nil {
		t.mu.Lock()
		delete(t.pending, msg.UUID)
		t.mu.Unlock()
	}
	return err
}

// delivered logs a hook that the next transport has taken.
func (t *traffic) delivered(msg *message.Message) {
	t.mu.Lock()
	delete(t.pending, msg.UUID)
	t.total++
	t.mu.Unlock()

	partition, _ := kafka.MessagePartitionFromCtx(msg.Context())
	offset, _ := kafka.MessagePartitionOffsetFromCtx(msg.Context())
	t.log.Info("hook",
		"id", msg.UUID,
		"source", msg.Metadata.Get(envelope.MetadataSourceID),
		"tenant", msg.Metadata.Get(envelope.MetadataTenantID),
		"type", msg.Metadata.Get(envelope.MetadataContentType),
		"bytes", len(msg.Payload),
		"verification", msg.Metadata.Get(envelope.MetadataVerification),
		"partition", partition,
		"offset", offset,
	)
}

// drain returns once every hook that was accepted is delivered, or when that takes too long.
func (t *traffic) drain() error {
	const patience = 20 * time.Second
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		t.mu.Lock()
		left := len(t.pending)
		t.mu.Unlock()
		if left == 0 {
			return nil
		}
		if time.Since(begin) > patience {
			t.log.Error("hooks are lost with the embedded brokers", "hooks", left)
			return errors.New("not drained")
		}
	}
}
