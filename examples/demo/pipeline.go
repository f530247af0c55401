package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"go.opentelemetry.io/otel/trace"

	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	"github.com/watermill-envelope/envelope/metrics"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// A config says what a pipeline is made of.
type config struct {
	kafka     []string
	transport transport // that the handler publishes to
	next      next      // the server of it
	listen    string
	topic     string                // on Kafka, and what it is called on the next transport
	temporary bool                  // the topics are to be removed in the end
	group     string                // of the Kafka consumer
	secrets   func(s source) string // of each source
	handler   message.HandlerFunc   // what the service does with a hook
	bodies    bodies                // where those lie that are too large for a message
	counts    *metrics.Collectors
	spans     trace.TracerProvider // nil: OpenTelemetry's global one
	log       *slog.Logger
	watermill *slog.Logger // what Watermill logs

	// The rest looks on and may be nil.
	accepting func(msg *message.Message, publish func() error) error // publish puts a hook on Kafka
	watch     func(*message.Message)                                 // sees what the handler is given
	archive   func(*message.Message)                                 // sees what the second group is given
	delivered func(*message.Message)                                 // sees what the next transport has taken
	drain     func() error                                           // waits for hooks when no more are taken
}

func (c config) poison() string { return c.topic + ".poison" }

// out is the topic on the next transport.
func (c config) out() string {
	if c.transport.name == "kafka" {
		return c.topic + ".next" // the hooks come from the same brokers
	}
	return c.topic
}

// archivePoison is the poison topic of the second group.
func (c config) archivePoison() string { return c.topic + ".archive.poison" }

// A pipeline is the whole path of a hook:
//
//	HTTP request -> receiver -> Kafka -> handler -> RabbitMQ, or another transport
//	                                  -> a second group, which only looks at it
//
// Messages have the bodies that are small enough, and references to the others.
type pipeline struct {
	claims *hookmw.ClaimCheck
	chains struct{ kafka, next *hookmw.Chain } // their spans say which broker it is
	url    string                              // of the HTTP server
	server *http.Server
	router *message.Router
	failed chan error     // of the server and the router, while they run
	close  []func() error // what start opened, in the order of opening
}

// start connects to both brokers and returns once requests are taken and messages consumed.
func start(ctx context.Context, c config) (p *pipeline, err error) {
	p = &pipeline{failed: make(chan error, 2)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.closeAll())
		}
	}()
	p.claims, err = hookmw.NewClaimCheck(hookmw.ClaimCheckConfig{Store: c.bodies.store, Logger: c.log, Observer: c.counts})
	if err != nil {
		return p, err
	}
	chain := hookmw.ChainConfig{ClaimCheck: p.claims, Logger: c.log, Observer: c.counts}
	chain.Trace = hookmw.Trace{TracerProvider: c.spans, System: "kafka", Parent: true}
	chain.Verification.Untrusted = hookmw.RefuseUntrusted // the receivers took none
	if p.chains.kafka, err = hookmw.NewChain(chain); err != nil {
		return p, err
	}
	chain.Trace.System = c.transport.name
	if p.chains.next, err = hookmw.NewChain(chain); err != nil {
		return p, err
	}
	toKafka, groups, err := p.openKafka(c)
	if err != nil {
		return p, fmt.Errorf("kafka: %w", err)
	}
	toNext, err := p.openNext(c)
	if err != nil {
		return p, fmt.Errorf("%s: %w", c.transport.name, err)
	}
	if p.router, err = newRouter(c, p.chains.kafka, groups, toKafka, toNext); err != nil {
		return p, err
	}
	go func() { p.failed <- p.router.Run(context.WithoutCancel(ctx)) }()
	p.opened(p.router.Close)
	select {
	case <-p.router.Running():
	case err = <-p.failed:
		return p, err
	}
	if c.drain != nil {
		p.opened(c.drain)
	}
	return p, p.serve(c, toKafka)
}

func (p *pipeline) opened(closer func() error) { p.close = append(p.close, closer) }

// closeAll closes what start opened, last things first: requests under way are answered,
// then messages under way are handled, then connections close.
func (p *pipeline) closeAll() error {
	var errs []error
	for len(p.close) > 0 {
		last := len(p.close) - 1
		errs = append(errs, p.close[last]())
		p.close = p.close[:last]
	}
	return errors.Join(errs...)
}

// openKafka returns a publisher, and a subscriber for each of the two groups.
func (p *pipeline) openKafka(c config) (message.Publisher, [2]message.Subscriber, error) {
	var groups [2]message.Subscriber
	log := watermill.NewSlogLogger(c.watermill)
	wire := kafkawire.Marshaler{Observer: c.counts}

	pub, err := newKafkaPublisher(c.kafka, wire, log)
	if err != nil {
		return nil, groups, err
	}
	p.opened(pub.Close)
	chained, err := p.chains.kafka.WrapPublisher(pub, wire)
	if err != nil {
		return nil, groups, err
	}

	consumer := kafka.DefaultSaramaSubscriberConfig()
	consumer.Consumer.Offsets.Initial = sarama.OffsetOldest
	for i, group := range []string{c.group, c.group + "-archive"} {
		sub, err := kafka.NewSubscriber(kafka.SubscriberConfig{
			Brokers: c.kafka, Unmarshaler: wire, ConsumerGroup: group,
			OverwriteSaramaConfig:  consumer,
			NackResendSleep:        time.Second,
			InitializeTopicDetails: &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: -1},
		}, log)
		if err != nil {
			return nil, groups, err
		}
		p.opened(sub.Close)
		for _, topic := range []string{c.topic, c.poison(), c.archivePoison()} {
			if err := sub.SubscribeInitialize(topic); err != nil {
				return nil, groups, err
			}
		}
		groups[i] = sub
	}
	return chained, groups, nil
}

// newKafkaPublisher returns one on which 202 can rest: Publish returns when all in-sync replicas
// have the record.
func newKafkaPublisher(brokers []string, wire kafka.Marshaler, log watermill.LoggerAdapter) (*kafka.Publisher, error) {
	producer := kafka.DefaultSaramaSyncPublisherConfig()
	producer.Producer.RequiredAcks = sarama.WaitForAll
	return kafka.NewPublisher(kafka.PublisherConfig{
		Brokers: brokers, Marshaler: wire, OverwriteSaramaConfig: producer,
	}, log)
}

func (p *pipeline) openNext(c config) (message.Publisher, error) {
	pub, sealer, err := c.next.publisher(c.out(), watermill.NewSlogLogger(c.watermill))
	if err != nil {
		return nil, err
	}
	p.opened(pub.Close)
	return p.chains.next.WrapPublisher(pub, sealer)
}

// newRouter makes a router like that of any service: with a poison topic, retries and the chain,
// around a handler for each group.
func newRouter(c config, chain *hookmw.Chain, groups [2]message.Subscriber, poison, to message.Publisher) (*message.Router, error) {
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 30 * time.Second}, watermill.NewSlogLogger(c.watermill))
	if err != nil {
		return nil, err
	}
	toPoison, err := chain.PoisonQueue(poison, nil, c.poison())
	if err != nil {
		return nil, err
	}
	toArchivePoison, err := chain.PoisonQueue(poison, nil, c.archivePoison())
	if err != nil {
		return nil, err
	}
	stack := []message.HandlerMiddleware{
		wmmw.Retry{MaxRetries: 5, InitialInterval: time.Second, ShouldRetry: hookmw.ShouldRetry}.Middleware,
		wmmw.Recoverer,
		chain.Middleware,
	}
	if c.delivered != nil {
		to = confirmed{to, c.delivered}
	}
	hooks := router.AddHandler("hooks", c.topic, groups[0], c.out(), to, func(msg *message.Message) ([]*message.Message, error) {
		if c.watch != nil {
			c.watch(msg)
		}
		return c.handler(msg)
	})
	hooks.AddMiddleware(append([]message.HandlerMiddleware{toPoison}, stack...)...)
	archive := router.AddConsumerHandler("archive", c.topic, groups[1], func(msg *message.Message) error {
		if c.archive != nil {
			c.archive(msg)
		}
		return nil
	})
	archive.AddMiddleware(append([]message.HandlerMiddleware{toArchivePoison}, stack...)...)
	return router, nil
}

// confirmed tells what was published without an error.
type confirmed struct {
	message.Publisher
	then func(*message.Message)
}

func (p confirmed) Publish(topic string, messages ...*message.Message) error {
	if err := p.Publisher.Publish(topic, messages...); err != nil {
		return err
	}
	for _, msg := range messages {
		p.then(msg)
	}
	return nil
}

// serve takes requests, one path for each source.
func (p *pipeline) serve(c config, pub message.Publisher) error {
	mux, err := receivers(c, pub)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.listen)
	if err != nil {
		return err
	}
	p.url = "http://" + listener.Addr().String()
	p.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second, // longer than a publish may take
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(c.log.Handler(), slog.LevelWarn),
	}
	go func() {
		if err := p.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			p.failed <- err
		}
	}()
	p.opened(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		return p.server.Shutdown(ctx)
	})
	return nil
}
