package inboxtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/inbox"
	"github.com/watermill-envelope/envelope/inbox/inboxtest"
)

// A seen is a Seen that is broken in one way.
type seen func(ctx context.Context, key string, fn func(context.Context) error) (bool, error)

func (s seen) Once(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
	return s(ctx, key, fn)
}

func memory(t *testing.T) *inbox.Memory {
	t.Helper()
	m, err := inbox.NewMemory(inbox.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var unavailable = seen(func(_ context.Context, key string, _ func(context.Context) error) (bool, error) {
	return false, &inbox.Error{Code: inbox.CodeUnavailable, Op: "claim", Key: key}
})

func nop(context.Context) error { return nil }

// A defect is one way to be broken, and the cases that find it. break_ is given a Seen that
// works and returns it broken.
type defect struct {
	name        string
	break_      func(t *testing.T, m *inbox.Memory) seen
	again       func(t *testing.T, s inbox.Seen) inbox.Seen
	unavailable seen
	fails       []string
}

// kept is a Seen that claims nothing: it looks whether key is kept and keeps it afterwards.
func kept(wait bool) func(t *testing.T, _ *inbox.Memory) seen {
	return func(*testing.T, *inbox.Memory) seen {
		var mu sync.Mutex
		keys := make(map[string]bool)
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			if err := ctx.Err(); err != nil {
				return false, &inbox.Error{Code: inbox.CodeUnavailable, Key: key, Err: err}
			}
			mu.Lock()
			if wait {
				defer mu.Unlock()
			}
			taken := keys[key]
			if !wait {
				mu.Unlock()
			}
			if taken {
				return false, nil
			}
			if err := fn(ctx); err != nil {
				return false, err
			}
			if !wait {
				mu.Lock()
				defer mu.Unlock()
			}
			keys[key] = true
			return true, nil
		}
	}
}

var defects = []defect{
	{name: "calls every fn", break_: func(*testing.T, *inbox.Memory) seen {
		return func(ctx context.Context, _ string, fn func(context.Context) error) (bool, error) {
			if err := ctx.Err(); err != nil {
				return false, &inbox.Error{Code: inbox.CodeUnavailable, Err: err}
			}
			if err := fn(ctx); err != nil {
				return false, err
			}
			return true, nil
		}
	}, fails: []string{"duplicate", "keys", "failure", "context-during", "beside", "beside-failing", "waiting", "shared", "shared-beside"}},
	{name: "calls no fn", break_: func(*testing.T, *inbox.Memory) seen {
		return func(context.Context, string, func(context.Context) error) (bool, error) { return true, nil }
	}, fails: []string{
		"first", "duplicate", "keys", "failure", "panic", "goexit", "context", "context-done", "context-during",
		"beside", "beside-failing", "other-keys", "waiting", "shared", "shared-beside",
	}},
	{name: "calls fn twice", break_: func(_ *testing.T, m *inbox.Memory) seen {
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			return m.Once(ctx, key, func(ctx context.Context) error { return errors.Join(fn(ctx), fn(ctx)) })
		}
	}, fails: []string{"first", "duplicate", "keys", "failure", "panic", "goexit", "context", "context-done", "beside", "beside-failing", "other-keys", "waiting", "shared", "shared-beside"}},
	{name: "a duplicate is an error", break_: func(_ *testing.T, m *inbox.Memory) seen {
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			first, err := m.Once(ctx, key, fn)
			if !first && err == nil {
				err = errors.New("duplicate")
			}
			return first, err
		}
	}, fails: []string{"duplicate", "keys", "failure", "context-during", "beside", "waiting", "shared", "shared-beside"}},
	{name: "keys without case", break_: func(_ *testing.T, m *inbox.Memory) seen {
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			return m.Once(ctx, strings.ToLower(key), fn)
		}
	}, fails: []string{"keys"}},
	{name: "keys that are cut", break_: func(_ *testing.T, m *inbox.Memory) seen {
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			return m.Once(ctx, key[:min(len(key), 255)], fn)
		}
	}, fails: []string{"keys"}},
	{name: "keys without spaces at the end", break_: func(_ *testing.T, m *inbox.Memory) seen {
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			return m.Once(ctx, strings.TrimRight(key, " "), fn)
		}
	}, fails: []string{"keys"}},
	{name: "a failure is kept", break_: func(_ *testing.T, m *inbox.Memory) seen {
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			var failed error
			first, err := m.Once(ctx, key, func(ctx context.Context) error {
				failed = fn(ctx)
				return nil
			})
			return first && failed == nil, errors.Join(err, failed)
		}
	}, fails: []string{"failure", "context", "beside-failing", "shared", "shared-beside"}},
	{name: "another error than the fn's", break_: func(_ *testing.T, m *inbox.Memory) seen {
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			return m.Once(ctx, key, func(ctx context.Context) error {
				if err := fn(ctx); err != nil {
					return fmt.Errorf("failed: %v", err) //nolint:errorlint // the defect
				}
				return nil
			})
		}
	}, fails: []string{"failure", "context"}},
	{name: "every failure its own", break_: func(_ *testing.T, m *inbox.Memory) seen {
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			first, err := m.Once(ctx, key, fn)
			var own *inbox.Error
			if err != nil && !errors.As(err, &own) {
				err = &inbox.Error{Code: inbox.CodeUnavailable, Err: err}
			}
			return first, err
		}
	}, fails: []string{"failure", "beside-failing", "shared-beside"}},
	{name: "a panic is an error", break_: func(_ *testing.T, m *inbox.Memory) seen {
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			return m.Once(ctx, key, func(ctx context.Context) (err error) {
				defer func() {
					if p := recover(); p != nil {
						err = fmt.Errorf("panic: %v", p)
					}
				}()
				return fn(ctx)
			})
		}
	}, fails: []string{"panic"}},
	{name: "a panic is kept", break_: func(_ *testing.T, m *inbox.Memory) seen {
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			defer func() {
				if p := recover(); p != nil {
					_, _ = m.Once(ctx, key, nop)
					panic(p)
				}
			}()
			return m.Once(ctx, key, fn)
		}
	}, fails: []string{"panic"}},
	{name: "the end of the goroutine is kept", break_: func(_ *testing.T, m *inbox.Memory) seen {
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			ended := true
			defer func() {
				if p := recover(); p != nil {
					panic(p)
				}
				if ended {
					_, _ = m.Once(ctx, key, nop)
				}
			}()
			first, err := m.Once(ctx, key, fn)
			ended = false
			return first, err
		}
	}, fails: []string{"goexit"}},
	{name: "no values in the context", break_: func(_ *testing.T, m *inbox.Memory) seen {
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			return m.Once(ctx, key, func(ctx context.Context) error {
				bare, cancel := context.WithCancel(context.Background())
				defer context.AfterFunc(ctx, cancel)()
				defer cancel()
				return fn(bare)
			})
		}
	}, fails: []string{"context"}},
	{name: "begins with a context that is done", break_: func(_ *testing.T, m *inbox.Memory) seen {
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			if ctx.Err() == nil {
				return m.Once(ctx, key, fn)
			}
			return m.Once(context.WithoutCancel(ctx), key, func(context.Context) error { return fn(ctx) })
		}
	}, fails: []string{"context-done"}},
	{name: "the context's bare error", break_: func(_ *testing.T, m *inbox.Memory) seen {
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			return m.Once(ctx, key, fn)
		}
	}, fails: []string{"context-done"}},
	{name: "kept, and says that it is not", break_: func(_ *testing.T, m *inbox.Memory) seen {
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			first, err := m.Once(ctx, key, fn)
			if err == nil && ctx.Err() != nil {
				return false, &inbox.Error{Code: inbox.CodeUnavailable, Err: ctx.Err()}
			}
			return first, err
		}
	}, fails: []string{"context-during"}},
	{name: "claims nothing", break_: kept(false), fails: []string{"beside", "beside-failing", "waiting", "shared-beside"}},
	{name: "one fn at a time", break_: func(_ *testing.T, m *inbox.Memory) seen {
		busy := make(chan struct{}, 1)
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			select {
			case busy <- struct{}{}:
			case <-time.After(100 * time.Millisecond):
				return false, &inbox.Error{Code: inbox.CodeBusy}
			}
			defer func() { <-busy }()
			return m.Once(ctx, key, fn)
		}
	}, fails: []string{"other-keys"}},
	{name: "busy is a duplicate", break_: func(_ *testing.T, m *inbox.Memory) seen {
		var busy sync.Map
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			if _, taken := busy.LoadOrStore(key, true); taken {
				return false, nil
			}
			defer busy.Delete(key)
			return m.Once(ctx, key, fn)
		}
	}, fails: []string{"waiting", "shared-beside"}},
	{name: "the key in the error", break_: func(_ *testing.T, m *inbox.Memory) seen {
		return func(ctx context.Context, key string, fn func(context.Context) error) (bool, error) {
			first, err := m.Once(ctx, key, fn)
			var own *inbox.Error
			if errors.As(err, &own) {
				err = fmt.Errorf("%s: %w", key, err)
			}
			return first, err
		}
	}, fails: []string{"context-done", "waiting"}},
	{name: "shares nothing", again: func(t *testing.T, _ inbox.Seen) inbox.Seen { return memory(t) }, fails: []string{"shared", "shared-beside"}},
	{name: "calls fn when unavailable", unavailable: func(ctx context.Context, _ string, fn func(context.Context) error) (bool, error) {
		_ = fn(ctx)
		return false, &inbox.Error{Code: inbox.CodeUnavailable}
	}, fails: []string{"unavailable"}},
	{name: "another class when unavailable", unavailable: func(context.Context, string, func(context.Context) error) (bool, error) {
		return false, errors.New("connection refused")
	}, fails: []string{"unavailable"}},
	{name: "another code when unavailable", unavailable: func(context.Context, string, func(context.Context) error) (bool, error) {
		return false, &inbox.Error{Code: inbox.CodeBusy}
	}, fails: []string{"unavailable"}},
}

// harness is that of a defect; the zero defect is none.
func (d defect) harness() inboxtest.Harness {
	h := inboxtest.Harness{
		New: func(t *testing.T) inbox.Seen {
			t.Helper()
			if d.break_ == nil {
				return memory(t)
			}
			return d.break_(t, memory(t))
		},
		Again:       func(_ *testing.T, s inbox.Seen) inbox.Seen { return s },
		Unavailable: func(*testing.T) inbox.Seen { return unavailable },
	}
	if d.again != nil {
		h.Again = d.again
	}
	if d.unavailable != nil {
		h.Unavailable = func(*testing.T) inbox.Seen { return d.unavailable }
	}
	return h
}

func TestRunPassesAGoodSeen(t *testing.T) {
	inboxtest.Run(t, defect{}.harness())
	// A Seen that lets the second one wait is as good.
	inboxtest.Run(t, inboxtest.Harness{New: func(t *testing.T) inbox.Seen { return memory(t) }})
}

// TestDefects holds the suite to its own word: a Seen with one defect fails the cases that are
// about it, and no others.
func TestDefects(t *testing.T) {
	failed := make(map[string]bool)
	for _, d := range defects {
		t.Run(strings.ReplaceAll(d.name, " ", "-"), func(t *testing.T) {
			var got []string
			for _, c := range inboxtest.Cases(d.harness()) {
				err := c.Check(t)
				if err == nil {
					continue
				}
				got = append(got, c.Name)
				failed[c.Name] = true
				if text := err.Error(); !strings.Contains(text, c.Rule) || !strings.Contains(text, c.Place) {
					t.Errorf("%s: an error without its rule and place: %v", c.Name, err)
				}
				if !slices.Contains(d.fails, c.Name) {
					t.Errorf("fails %s: %.500v", c.Name, err)
				}
			}
			for _, name := range d.fails {
				if !slices.Contains(got, name) {
					t.Errorf("does not fail %s", name)
				}
			}
		})
	}
	for _, c := range inboxtest.Cases(defect{}.harness()) {
		if !failed[c.Name] {
			t.Errorf("no defect fails %s, so it may check nothing", c.Name)
		}
	}
}

func TestCapabilities(t *testing.T) {
	all := len(inboxtest.Cases(defect{}.harness()))
	h := defect{}.harness()
	h.Again, h.Unavailable, h.OneAtATime = nil, nil, true
	if got := len(inboxtest.Cases(h)); got != all-4 {
		t.Errorf("%d cases without what is optional, want %d", got, all-4)
	}
}

func TestCasesAreNamed(t *testing.T) {
	var names []string
	for _, c := range inboxtest.Cases(defect{}.harness()) {
		if c.Name == "" || c.Rule == "" || strings.ContainsAny(c.Name, " /") || slices.Contains(names, c.Name) {
			t.Errorf("case %q of the rule %q", c.Name, c.Rule)
		}
		if !strings.Contains(c.Place, ".go:") {
			t.Errorf("case %q is at %q", c.Name, c.Place)
		}
		names = append(names, c.Name)
	}
}
