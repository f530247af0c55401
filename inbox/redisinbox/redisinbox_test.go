package redisinbox_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/watermill-envelope/envelope/inbox"
	"github.com/watermill-envelope/envelope/inbox/inboxtest"
	"github.com/watermill-envelope/envelope/inbox/redisinbox"
)

func client(t *testing.T) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1}) // where nothing listens
	t.Cleanup(func() { c.Close() })
	return c
}

// Without a server there is one rule to keep. The others are checked on a real one.
func TestUnavailable(t *testing.T) {
	found := false
	for _, c := range inboxtest.Cases(inboxtest.Harness{Unavailable: func(t *testing.T) inbox.Seen {
		i, err := redisinbox.New(redisinbox.Config{Client: client(t)})
		if err != nil {
			t.Fatal(err)
		}
		return i
	}}) {
		if c.Name != "unavailable" {
			continue
		}
		found = true
		if err := c.Check(t); err != nil {
			t.Error(err)
		}
	}
	if !found {
		t.Error("no such case")
	}
}

func TestConfig(t *testing.T) {
	for _, test := range []struct {
		c    redisinbox.Config
		want string
	}{
		{redisinbox.Config{Client: client(t)}, ""},
		{redisinbox.Config{Client: client(t), Prefix: "p", Retention: time.Hour, Lease: 100 * time.Millisecond, Wait: -1}, ""},
		{redisinbox.Config{}, "redisinbox: no Client"},
		{
			redisinbox.Config{Client: client(t), Retention: -1, Lease: -1},
			"redisinbox: Retention -1ns, at least 1ms\nredisinbox: Lease -1ns, at least 100ms",
		},
		{
			redisinbox.Config{Client: client(t), Retention: 1, Lease: 100*time.Millisecond - 1},
			"redisinbox: Retention 1ns, at least 1ms\nredisinbox: Lease 99.999999ms, at least 100ms",
		},
	} {
		_, err := redisinbox.New(test.c)
		if err == nil && test.want != "" || err != nil && err.Error() != test.want {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}
