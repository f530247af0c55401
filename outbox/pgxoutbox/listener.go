package pgxoutbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/watermill-envelope/envelope/outbox"
)

// A Listener wakes a relay up when a transaction that published commits: it is the
// [outbox.Waker] of an outbox with Notify. It has a connection of its own, which is made when it
// is first waited for, and again after it broke.
type Listener struct {
	config  *pgx.ConnConfig
	channel string

	mu     sync.Mutex // held while the connection is made, waited on or closed
	conn   *pgx.Conn
	closed context.Context
	close  context.CancelFunc
}

var _ outbox.Waker = (*Listener)(nil)

// NewListener returns a Listener for the channel of o, on the database that a connection string
// says: not through a pooler that gives each transaction another connection. It does not connect.
func NewListener(o *outbox.Outbox, connString string) (*Listener, error) {
	channel := o.Channel()
	if channel == "" {
		return nil, errors.New("pgxoutbox: the outbox does not notify: Config.Notify is not set")
	}
	config, err := pgx.ParseConfig(connString)
	if err != nil {
		return nil, fmt.Errorf("pgxoutbox: connection string: %w", err)
	}
	l := &Listener{config: config, channel: channel}
	l.closed, l.close = context.WithCancel(context.Background())
	return l, nil
}

// Wait returns when there was a notification, and at once when it has connected, since until then
// some were missed. What comes between two calls is not lost. See [outbox.Waker].
func (l *Listener) Wait(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.closed, cancel)()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Err() != nil {
		return errors.New("pgxoutbox: wait: the listener is closed")
	}
	if l.conn == nil {
		return l.connect(ctx)
	}
	if _, err := l.conn.WaitForNotification(ctx); err != nil {
		if ctx.Err() == nil || l.conn.IsClosed() {
			l.disconnect()
		}
		return fmt.Errorf("pgxoutbox: wait: %w", err)
	}
	return nil
}

func (l *Listener) connect(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return fmt.Errorf("pgxoutbox: connect: %w", err)
	}
	l.conn = conn
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{l.channel}.Sanitize()); err != nil {
		l.disconnect()
		return fmt.Errorf("pgxoutbox: listen: %w", err)
	}
	return nil
}

// farewell is how long a server may take to hear that a connection ends.
const farewell = time.Second

func (l *Listener) disconnect() {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	_ = l.conn.Close(ctx) // it is not used any more
	l.conn = nil
}

// Close ends a Wait that is going on, and the connection.
func (l *Listener) Close() error {
	l.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.disconnect()
	}
	return nil
}
