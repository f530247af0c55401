package inbox_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/inbox"
	"github.com/watermill-envelope/envelope/inbox/inboxtest"
)

func memory(t *testing.T, c inbox.MemoryConfig) *inbox.Memory {
	t.Helper()
	m, err := inbox.NewMemory(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMemory(t *testing.T) {
	inboxtest.Run(t, inboxtest.Harness{
		New:   func(t *testing.T) inbox.Seen { return memory(t, inbox.MemoryConfig{}) },
		Again: func(_ *testing.T, seen inbox.Seen) inbox.Seen { return seen },
	})
}

// handled reports whether fn of the key ran, and was kept.
func handled(t *testing.T, m *inbox.Memory, key string) bool {
	t.Helper()
	first, err := m.Once(t.Context(), key, func(context.Context) error { return nil })
	if err != nil {
		t.Errorf("%s: %v", key, err)
	}
	return first
}

func TestMemoryExpires(t *testing.T) {
	for _, test := range []struct {
		name string
		c    inbox.MemoryConfig
		keep time.Duration
	}{
		{"by default", inbox.MemoryConfig{}, 24 * time.Hour},
		{"as set", inbox.MemoryConfig{Retention: time.Minute}, time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := memory(t, test.c)
				// What counts is the end of the function.
				if _, err := m.Once(t.Context(), "a", func(context.Context) error {
					time.Sleep(time.Second)
					return nil
				}); err != nil {
					t.Error(err)
				}
				time.Sleep(test.keep - 1)
				if handled(t, m, "a") {
					t.Error("expired too early")
				}
				time.Sleep(time.Nanosecond)
				if !handled(t, m, "a") {
					t.Error("not expired")
				}
			})
		})
	}
}

func TestMemoryIsBounded(t *testing.T) {
	m := memory(t, inbox.MemoryConfig{MaxKeys: 3})
	_, err := m.Once(t.Context(), "running", func(ctx context.Context) error {
		for i := range 5 {
			if !handled(t, m, strconv.Itoa(i)) {
				t.Errorf("%d is no new key", i)
			}
		}
		// The two that were kept last are there, and the one that runs.
		for _, key := range []string{"4", "3"} {
			if handled(t, m, key) {
				t.Errorf("%s was given up", key)
			}
		}
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		_, err := m.Once(ctx, "running", func(context.Context) error {
			t.Error("two run at once")
			return nil
		})
		if err == nil {
			t.Error("no error beside the key that runs")
		}
		// It takes the place of the key that was kept first.
		if !handled(t, m, "0") || handled(t, m, "4") || !handled(t, m, "3") {
			t.Error("not the first one was given up")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if handled(t, m, "running") {
		t.Error("the key that ran was given up")
	}
}

func TestMemoryFullOfRunningKeys(t *testing.T) {
	m := memory(t, inbox.MemoryConfig{MaxKeys: 1})
	_, err := m.Once(t.Context(), "a", func(ctx context.Context) error {
		_, err := m.Once(ctx, "b", func(context.Context) error {
			t.Error("called")
			return nil
		})
		if !errors.Is(err, inbox.ErrUnavailable) || !envelope.IsTransient(err) {
			t.Errorf("error %v", err)
		}
		return nil
	})
	if err != nil || handled(t, m, "a") || !handled(t, m, "b") {
		t.Errorf("error %v, or a was given up, or b is not free", err)
	}
}

func TestMemoryConfig(t *testing.T) {
	_, err := inbox.NewMemory(inbox.MemoryConfig{Retention: -1, MaxKeys: -1})
	const want = "inbox: negative Retention -1ns\ninbox: negative MaxKeys -1"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestError(t *testing.T) {
	all := map[inbox.Code]error{
		inbox.CodeBusy: inbox.ErrBusy, inbox.CodeUnavailable: inbox.ErrUnavailable,
		inbox.CodeConflict: inbox.ErrConflict, inbox.CodeLost: inbox.ErrLost, "other": nil,
	}
	for code, target := range all {
		cause := errors.New("connection refused")
		err := error(&inbox.Error{Code: code, Op: "claim", Key: "secret", Err: cause})
		if want := "inbox: claim: " + string(code) + ": connection refused"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
		if !errors.Is(err, cause) || !envelope.IsTransient(err) {
			t.Errorf("%v: not its cause or not transient", err)
		}
		for _, other := range all {
			if other != nil && errors.Is(err, other) != (other == target) {
				t.Errorf("%v is %v: %v", err, other, other != target)
			}
		}
	}
	if got := (&inbox.Error{Code: inbox.CodeBusy}).Error(); got != "inbox: busy" {
		t.Error(got)
	}
}
