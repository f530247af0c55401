package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

// A Receiver is an http.Handler that publishes requests as envelopes, and answers 202 only
// once Publish has returned without an error. Any number of goroutines may use it.
//
// # Answers
//
//	202                 {"id": "<the envelope's ID>"}
//	200                 the answer to a handshake (Slack's url_verification), which is verified but not published
//	400 401 404 408 413 {"error": "<code>"}: the request is at fault, see [StatusCode]
//	405                 {"error": "method_not_allowed"}: only POST is
//	500                 {"error": "internal"}: a Verifier, another function of the configuration or the Publisher panicked
//	503 + Retry-After   {"error": "<code>"}: overloaded, publish_failed or unavailable; the provider is to try again
//
// # What 202 means
//
// That Publish returned, which is worth what the Publisher is configured for:
//
//   - RabbitMQ: set Publish.ConfirmDelivery in the watermill-amqp config; only then does
//     Publish wait for the broker's confirm. Without, 202 means: written to a socket. A
//     message that no queue is bound for is confirmed and gone.
//   - Kafka: watermill-kafka publishes synchronously. Set Producer.RequiredAcks =
//     sarama.WaitForAll in OverwriteSaramaConfig (start from
//     kafka.DefaultSaramaSyncPublisherConfig) and min.insync.replicas on the topic; by
//     default the leader alone has it.
//   - NATS: JetStream acknowledges once the stream has it; core NATS does not acknowledge.
//   - Redis Streams: the primary has it in memory; its persistence decides about the rest.
//   - SQS, SNS, Google Pub/Sub, SQL: stored.
//   - GoChannel: in the memory of this process, or nowhere when nobody subscribed.
//
// A request that is not answered 202 may have been stored all the same: when Publish failed
// half way, or finished after PublishTimeout. The provider sends it again then, and the
// second copy is another envelope with the same dedupe key: consumers deduplicate by
// [envelope.Envelope.DeduplicationKey]. The Receiver does not.
//
// # Clients that stall or leave
//
// A body that takes longer than BodyTimeout is answered 408 and the connection is closed,
// whatever the timeouts of the http.Server are; a middleware around the Receiver must have
// its ResponseWriter unwrapped by http.ResponseController for that. The rest is the
// server's: set ReadHeaderTimeout, IdleTimeout and MaxHeaderBytes, and a WriteTimeout, if
// any, over BodyTimeout plus PublishTimeout.
//
// Once its body has arrived, a request is published even when the client has gone: the
// message's context has the values of the request's context, and a deadline of its own.
// http.Server.Shutdown waits for the requests that have not been answered; close the
// Publisher after it.
type Receiver struct {
	config     ReceiverConfig
	slots      chan struct{}
	memory     budget
	retryAfter string
}

// NewReceiver returns a Receiver, or everything that is wrong with c.
func NewReceiver(c ReceiverConfig) (*Receiver, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.MaxConcurrent == 0 {
		c.MaxConcurrent = DefaultMaxConcurrent
	}
	if c.MaxBytesInFlight == 0 {
		c.MaxBytesInFlight = max(DefaultMaxBytesInFlight, inFlight(&c.Request))
	}
	if c.BodyTimeout == 0 {
		c.BodyTimeout = DefaultBodyTimeout
	}
	if c.PublishTimeout == 0 {
		c.PublishTimeout = DefaultPublishTimeout
	}
	if c.RetryAfter == 0 {
		c.RetryAfter = DefaultRetryAfter
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	rc := &Receiver{
		config:     c,
		slots:      make(chan struct{}, c.MaxConcurrent),
		retryAfter: strconv.FormatInt(int64((c.RetryAfter+time.Second-1)/time.Second), 10),
	}
	rc.memory.free.Store(c.MaxBytesInFlight)
	return rc, nil
}

// An exchange is one request on its way, and what is known of it for the log.
type exchange struct {
	topic, source, tenant, id string

	handshake bool // it was one, and answer is to be sent
	answer    string
	err       error
}

// ServeHTTP implements http.Handler.
func (rc *Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{}
	rc.handle(w, r, x)
	rc.log(r.Context(), x)
	rc.reply(w, x)
}

// handle leaves in x what became of the request. A panic in it is an error.
func (rc *Receiver) handle(w http.ResponseWriter, r *http.Request, x *exchange) {
	defer func() {
		if v := recover(); v == http.ErrAbortHandler { //nolint:errorlint // the very value that net/http looks for
			panic(v)
		} else if v != nil {
			x.err = panicked(v)
		}
	}()
	// Before anything else, since the server itself reads what is left of a body before an
	// answer; it lifts the deadline at the end of the body. Where the writer cannot set one,
	// the server's own timeout has to do.
	deadline := time.Now().Add(rc.config.BodyTimeout)
	_ = http.NewResponseController(w).SetReadDeadline(deadline)

	if r.Method != http.MethodPost {
		x.err = &Error{Code: CodeNotAllowed}
		return
	}
	select {
	case rc.slots <- struct{}{}:
	default:
		x.err = &Error{Code: CodeOverloaded}
		return
	}
	mem := &reservation{from: &rc.memory}
	release := func() {
		mem.give(mem.held)
		<-rc.slots
	}
	published := false
	defer func() {
		if !published {
			release()
		}
	}()

	topic, o := rc.config.Topic, &rc.config.Request
	if rc.config.Route != nil {
		t, routed, err := rc.config.Route(r)
		if err == nil && (t == "" || inFlight(&routed) > rc.config.MaxBytesInFlight) {
			err = &Error{Code: CodeInvalidOptions, Err: errors.New("no topic from Route, or its MaxBodyBytes is over half of MaxBytesInFlight")}
		}
		if err != nil {
			x.err = err
			return
		}
		topic, o = t, &routed
	}
	x.topic, x.source, x.tenant = topic, o.Source, o.Tenant

	e, err := fromRequest(r, o, mem)
	if codeOf(err) == CodeIncompleteBody && !time.Now().Before(deadline) {
		err = &Error{Code: CodeBodyTimeout, Err: err} // net/http hides it in the last chunk
	}
	if err != nil {
		x.err = err
		return
	}
	x.id = e.ID
	if c, ok := o.Verify.(interface{ Challenge([]byte) (string, bool) }); ok && e.Verification.Trusted() {
		if x.answer, x.handshake = c.Challenge(e.Body); x.handshake {
			return
		}
	}
	published = true
	x.err = rc.publish(r.Context(), topic, e.Message(), release)
}

// publish waits for Publish, but not for ever: what a publisher does with a deadline is its
// own affair. release is called once it has returned.
func (rc *Receiver) publish(ctx context.Context, topic string, msg *message.Message, release func()) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rc.config.PublishTimeout)
	msg.SetContext(ctx)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		err := rc.store(topic, msg)
		release() // before the answer: the client's next request may count on it
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done: // and was cancelled after that
		default:
			return &Error{Code: CodePublishFailed, Err: fmt.Errorf("not done after %v", rc.config.PublishTimeout)}
		}
	}
	if e := (*panicError)(nil); err == nil || errors.As(err, &e) || errors.Is(err, envelope.ErrMessageTooLarge) {
		return err
	}
	return &Error{Code: CodePublishFailed, Err: err}
}

// store is Publish, with a panic as an error.
func (rc *Receiver) store(topic string, msg *message.Message) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
	}()
	return rc.config.Publisher.Publish(topic, msg)
}

// A panicError is a panic in code that was called. Its text has the type of the value and
// not the value, which may be anything.
type panicError struct {
	value string
	stack []byte
}

func panicked(v any) error { return &panicError{fmt.Sprintf("%T", v), debug.Stack()} }

func (e *panicError) Error() string { return "webhook: panic with a value of type " + e.value }

func (rc *Receiver) reply(w http.ResponseWriter, x *exchange) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	if x.handshake {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte(x.answer))
		return
	}
	h.Set("Content-Type", "application/json")
	if x.err == nil {
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"id":"` + x.id + `"}`)) // a UUID
		return
	}
	status, code := StatusCode(x.err), codeOf(x.err)
	switch status {
	case http.StatusMethodNotAllowed:
		h.Set("Allow", http.MethodPost)
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", rc.retryAfter)
	}
	if code == CodeBodyTooLarge {
		h.Set("Connection", "close") // the server would wait for what is left of the body
	}
	text, _ := json.Marshal(struct { // a code may come from Route
		Error Code `json:"error"`
	}{code})
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// log writes the one line of a request that was not accepted.
func (rc *Receiver) log(ctx context.Context, x *exchange) {
	if x.err == nil {
		return
	}
	status, code := StatusCode(x.err), codeOf(x.err)
	level := slog.LevelWarn
	if status >= 500 && code != CodeOverloaded {
		level = slog.LevelError
	}
	if !rc.config.Logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("code", string(code)), slog.Int("status", status)}
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	add("topic", x.topic)
	add("source_id", x.source)
	add("tenant_id", x.tenant)
	add("message_id", x.id)
	var e *Error
	if errors.As(x.err, &e) {
		add("field", e.Field)
	}
	// The text of a verifier's own error is not ours to vouch for.
	if code != CodeVerificationFailed {
		add("error", x.err.Error())
	}
	if p := (*panicError)(nil); errors.As(x.err, &p) {
		add("stack", string(p.stack))
	}
	rc.config.Logger.LogAttrs(ctx, level, "webhook not accepted", attrs...)
}
