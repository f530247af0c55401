package rabbitmq

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope/bus"
)

const (
	dialTimeout  = 10 * time.Second // for TCP, TLS and the handshake together
	writeTimeout = 10 * time.Second // a connection that takes no bytes for so long is lost
	minBackoff   = 250 * time.Millisecond
	maxBackoff   = 10 * time.Second
	closeWait    = 5 * time.Second // for an answer that nobody needs any more
	maxRefusals  = 3               // refused logins in a row, after which nobody waits for the next one
)

// A connection is one connection to the broker, and its socket.
type connection struct {
	*amqp.Connection
	raw net.Conn
}

// abort closes the socket: whatever waits for the broker or for the socket fails. The client
// alone cannot do that to a connection that hangs, for it waits for the locks of those that
// hang in it.
func (c *connection) abort() { _ = c.raw.Close() }

// within aborts the connection when something on it is not finished, by a call of the
// returned function, a while after ctx has ended: the client itself waits without a limit.
func (c *connection) within(ctx context.Context) (finished func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		patience := time.NewTimer(closeWait)
		defer patience.Stop()
		select {
		case <-done:
		case <-patience.C:
			c.abort()
		}
	})
	return func() {
		stop()
		close(done)
	}
}

// shut closes the connection in good order, or aborts it when that takes longer than wait.
func (c *connection) shut(wait time.Duration) {
	timer := time.AfterFunc(wait, c.abort)
	defer timer.Stop()
	_ = c.Connection.Close() // an error says that it was closed already
}

// A socket bounds every write. Without it a broker that stops reading (it does so when it is
// short of memory or disk) blocks a writer, and with it the client, for ever.
type socket struct{ net.Conn }

func (s socket) Write(b []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return s.Conn.Write(b)
}

// A link keeps one connection to the broker: it dials when there is none and somebody asks
// for it, one attempt at a time, with a pause before each that grows and is partly random.
type link struct {
	dial   func(ctx context.Context) (*connection, error) // knows the URI, which nothing here may print
	shown  string                                         // the redacted URI
	log    *slog.Logger
	closed chan struct{}
	once   sync.Once

	current  atomic.Pointer[connection]
	frameMax atomic.Int64  // of the last connection, in bytes; 0 for no limit
	dialing  chan struct{} // holds a token while somebody dials; guards what follows
	failures int           // in a row
	refusals int           // of those, ended by the broker at the login
	last     error
	next     time.Time // no attempt before
}

func newLink(uri URI, config *tls.Config, log *slog.Logger) *link {
	l := &link{
		dial:    func(ctx context.Context) (*connection, error) { return dial(ctx, uri, config) },
		shown:   uri.Redacted(),
		log:     log,
		closed:  make(chan struct{}),
		dialing: make(chan struct{}, 1),
	}
	l.frameMax.Store(unknown)
	return l
}

func dial(ctx context.Context, uri URI, config *tls.Config) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var c connection
	stop := func() bool { return true }
	conn, err := amqp.DialConfig(string(uri), amqp.Config{
		TLSClientConfig: config.Clone(),
		Dial: func(network, addr string) (net.Conn, error) {
			raw, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			c.raw = raw
			stop = context.AfterFunc(ctx, c.abort)
			return socket{raw}, nil
		},
	})
	if !stop() && err == nil {
		err = ctx.Err() // aborted just after the last step
	}
	if err != nil {
		if c.raw != nil {
			c.abort()
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("no answer in time: %w", ctx.Err())
		}
		return nil, err
	}
	c.Connection = conn
	return &c, nil
}

// alive returns the connection, or nil.
func (l *link) alive() *connection {
	if c := l.current.Load(); c != nil && !c.IsClosed() {
		return c
	}
	return nil
}

// get returns the connection and makes one if need be. It waits until ctx ends for a broker
// that is down, and not for one that refuses the login again and again.
func (l *link) get(ctx context.Context) (*connection, error) {
	if c := l.alive(); c != nil {
		return c, nil
	}
	select {
	case l.dialing <- struct{}{}:
		defer func() { <-l.dialing }()
	case <-ctx.Done():
		return nil, l.failed(ctx.Err())
	case <-l.closed:
		return nil, ErrClosed
	}
	for {
		if c := l.alive(); c != nil {
			return c, nil
		}
		if l.refusals >= maxRefusals && time.Now().Before(l.next) {
			return nil, l.failed(l.last)
		}
		pause := time.NewTimer(time.Until(l.next))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			if l.last != nil {
				return nil, l.failed(l.last)
			}
			return nil, l.failed(ctx.Err())
		case <-l.closed:
			pause.Stop()
			return nil, ErrClosed
		}
		l.attempt(ctx)
	}
}

// attempt dials once.
func (l *link) attempt(ctx context.Context) {
	c, err := l.dial(ctx)
	if err == nil {
		l.failures, l.refusals, l.last = 0, 0, nil
		l.next = time.Now().Add(minBackoff) // for a connection that does not last
		l.frameMax.Store(int64(c.Config.FrameSize))
		l.current.Store(c)
		go l.watch(c.NotifyClose(make(chan *amqp.Error, 1)))
		select {
		case <-l.closed: // close may not have seen it
			c.abort()
		default:
			l.log.Info("rabbitmq: connected", "broker", l.shown)
		}
		return
	}
	if ctx.Err() != nil {
		if l.last == nil {
			l.last = ctx.Err()
		}
		return // the caller's time was over; that says nothing about the broker
	}
	l.last = dialing(err)
	l.failures++
	if isRefusal(err) {
		l.refusals++
	} else {
		l.refusals = 0
	}
	l.next = time.Now().Add(backoff(l.failures))
	l.log.Warn("rabbitmq: cannot connect", "broker", l.shown, "failures", l.failures, "error", l.last)
}

// watch logs the end of a connection that nobody here asked for.
func (l *link) watch(closes <-chan *amqp.Error) {
	if err := <-closes; err != nil {
		l.log.Warn("rabbitmq: the connection was lost", "broker", l.shown, "error", scrub(err))
	}
}

// failed is the error of having no connection. It is transient: the message was not sent.
func (l *link) failed(err error) error {
	return &bus.Error{Code: bus.CodeConnection, Err: fmt.Errorf("%s: %w", l.shown, err)}
}

// stop ends every get that waits; the connection stays.
func (l *link) stop() { l.once.Do(func() { close(l.closed) }) }

// close stops the link and closes the connection.
func (l *link) close() {
	l.stop()
	if c := l.alive(); c != nil {
		c.shut(closeWait)
	}
}

// backoff is the pause after the nth failure in a row: it doubles up to its maximum, and its
// second half is random, so that the clients of a broker do not all come back at once.
func backoff(n int) time.Duration {
	d := maxBackoff
	if n < 6 {
		d = min(d, minBackoff<<(n-1))
	}
	return d/2 + rand.N(d/2+1)
}
