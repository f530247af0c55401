package database

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/inbox"
	"github.com/watermill-envelope/envelope/inbox/inboxtest"
	"github.com/watermill-envelope/envelope/inbox/redisinbox"
	"github.com/watermill-envelope/envelope/integration/servers"
)

var prefixes atomic.Int64

func redisClient(t testing.TB, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	return client
}

// redisInbox returns an inbox under a prefix of its own, unless c has one, and its client.
func redisInbox(t testing.TB, addr string, c redisinbox.Config) (*redisinbox.Inbox, *redis.Client) {
	t.Helper()
	client := redisClient(t, addr)
	c.Client = client
	if c.Prefix == "" {
		c.Prefix = fmt.Sprintf("test-%d:", prefixes.Add(1))
	}
	i, err := redisinbox.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return i, client
}

func nop(context.Context) error { return nil }

func TestInboxOnRedis(t *testing.T) {
	for _, wait := range []time.Duration{0, -1} {
		t.Run(fmt.Sprintf("wait %d", wait), func(t *testing.T) {
			var c redisinbox.Config
			inboxtest.Run(t, inboxtest.Harness{
				New: func(t *testing.T) inbox.Seen {
					c = redisinbox.Config{Prefix: fmt.Sprintf("suite-%d:", prefixes.Add(1)), Wait: wait}
					i, _ := redisInbox(t, redisServer.Addr(), c)
					return i
				},
				Again: func(t *testing.T, _ inbox.Seen) inbox.Seen {
					i, _ := redisInbox(t, redisServer.Addr(), c)
					return i
				},
				Unavailable: func(t *testing.T) inbox.Seen {
					i, _ := redisInbox(t, "127.0.0.1:1", redisinbox.Config{})
					return i
				},
			})
		})
	}
}

// What lies in Redis, and for how long.
func TestRedisInboxKeys(t *testing.T) {
	i, client := redisInbox(t, redisServer.Addr(), redisinbox.Config{Prefix: "shop:", Retention: 2 * time.Hour, Lease: time.Hour})
	_, err := i.Once(t.Context(), "h:1", func(ctx context.Context) error {
		held, err := client.Get(ctx, "shop:h:1").Result()
		if err != nil || len(held) != 26 {
			t.Errorf("while it is handled: %q, %v, want a token", held, err)
		}
		if ttl := client.PTTL(ctx, "shop:h:1").Val(); ttl <= 0 || ttl > time.Hour {
			t.Errorf("the lease is for %v", ttl)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if held, err := client.Get(t.Context(), "shop:h:1").Result(); err != nil || held != "done" {
		t.Errorf("afterwards: %q, %v", held, err)
	}
	if ttl := client.PTTL(t.Context(), "shop:h:1").Val(); ttl <= time.Hour || ttl > 2*time.Hour {
		t.Errorf("kept for %v", ttl)
	}
	fail := errors.New("no stock")
	if _, err := i.Once(t.Context(), "h:2", func(context.Context) error { return fail }); !errors.Is(err, fail) {
		t.Error(err)
	}
	if n := client.Exists(t.Context(), "shop:h:2").Val(); n != 0 {
		t.Error("a key is left of a handler that failed")
	}
}

// A handler that takes longer than the lease keeps it.
func TestRedisInboxRenews(t *testing.T) {
	const lease = 300 * time.Millisecond
	c := redisinbox.Config{Lease: lease, Prefix: "renew:", Wait: -1}
	i, client := redisInbox(t, redisServer.Addr(), c)
	other, _ := redisInbox(t, redisServer.Addr(), c)
	first, err := i.Once(t.Context(), "h:1", func(ctx context.Context) error {
		token := client.Get(ctx, "renew:h:1").Val()
		// Until three leases are over, by the server's clock.
		begin := client.Time(ctx).Val()
		for client.Time(ctx).Val().Sub(begin) < 3*lease {
			if _, err := other.Once(ctx, "h:1", func(context.Context) error {
				t.Error("two handlers run at once")
				return nil
			}); !errors.Is(err, inbox.ErrBusy) {
				t.Errorf("%v, want ErrBusy", err)
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(lease / 10):
			}
		}
		if got := client.Get(ctx, "renew:h:1").Val(); got != token {
			t.Errorf("the token was %q and is %q", token, got)
		}
		return nil
	})
	if !first || err != nil {
		t.Errorf("%v, %v", first, err)
	}
}

// A lease that is another's is neither kept nor given free, and the handler is told.
func TestRedisInboxLost(t *testing.T) {
	i, client := redisInbox(t, redisServer.Addr(), redisinbox.Config{Lease: 300 * time.Millisecond, Prefix: "lost:"})
	for _, test := range []struct {
		key string
		end func(ctx context.Context) error
	}{
		{"succeeds", func(context.Context) error { return nil }},
		{"fails", func(ctx context.Context) error { return ctx.Err() }},
	} {
		first, err := i.Once(t.Context(), test.key, func(ctx context.Context) error {
			if err := client.Set(ctx, "lost:"+test.key, "another's", time.Hour).Err(); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, inbox.ErrLost) {
				t.Errorf("cancelled by %v", cause)
			}
			return test.end(ctx)
		})
		if first || !errors.Is(err, inbox.ErrLost) || !envelope.IsTransient(err) {
			t.Errorf("%s: %v, %v, want ErrLost", test.key, first, err)
		}
		if held := client.Get(t.Context(), "lost:"+test.key).Val(); held != "another's" {
			t.Errorf("%s: the other's key is now %q", test.key, held)
		}
	}
}

// The lease of a process that has ended runs out, and the next one handles the message.
func TestRedisInboxCrash(t *testing.T) {
	i, client := redisInbox(t, redisServer.Addr(), redisinbox.Config{Prefix: "crash:", Wait: time.Minute})
	if err := client.Set(t.Context(), "crash:h:1", "a token", 200*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	if first, err := i.Once(t.Context(), "h:1", nop); !first || err != nil {
		t.Errorf("%v, %v", first, err)
	}
}

// Redis is down when the handler returns: the key is kept once it is back, or the handler is
// told that it is not.
func TestRedisInboxOutage(t *testing.T) {
	server, err := servers.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, server)
	c := redisinbox.Config{Lease: 20 * time.Second, Prefix: "outage:"}
	refused := make(chan struct{}, 1)
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				select {
				case refused <- struct{}{}:
				default:
				}
			}
			return conn, err
		},
	})
	t.Cleanup(func() { client.Close() })
	c.Client = client
	i, err := redisinbox.New(c)
	if err != nil {
		t.Fatal(err)
	}
	first, err := i.Once(t.Context(), "h:1", func(context.Context) error {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
		go func() {
			<-refused // it was found to be down
			if err := server.Start(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		return nil
	})
	if !first || err != nil {
		t.Errorf("back before the lease has run out: %v, %v", first, err)
	}
	if first, err := i.Once(t.Context(), "h:1", nop); first || err != nil {
		t.Errorf("after it: %v, %v, want a duplicate", first, err)
	}

	c.Lease = 300 * time.Millisecond
	i, _ = redisInbox(t, server.Addr(), c)
	first, err = i.Once(t.Context(), "h:2", func(ctx context.Context) error {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
		<-ctx.Done() // the lease cannot be renewed
		return nil
	})
	if first || !errors.Is(err, inbox.ErrUnavailable) || !envelope.IsTransient(err) {
		t.Errorf("not back: %v, %v, want ErrUnavailable", first, err)
	}
	if _, err := i.Once(t.Context(), "h:2", func(context.Context) error {
		t.Error("called while Redis is down")
		return nil
	}); !errors.Is(err, inbox.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if first, err := i.Once(t.Context(), "h:2", nop); !first || err != nil {
		t.Errorf("back again: %v, %v", first, err)
	}
}
