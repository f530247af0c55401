package inbox

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// What a [MemoryConfig] that does not say otherwise has.
const (
	DefaultRetention = 24 * time.Hour
	DefaultMaxKeys   = 100_000
)

// A MemoryConfig says how much a [Memory] remembers. The zero value works.
type MemoryConfig struct {
	// Retention is how long a key is kept after its function returned; 0 is
	// [DefaultRetention].
	Retention time.Duration
	// MaxKeys is how many keys there are at most; 0 is [DefaultMaxKeys]. A new key takes the
	// place of the one that was kept first. A key whose function runs is never given up: when
	// all are such, Once fails with [ErrUnavailable]. A key takes its own bytes and about 300.
	MaxKeys int
}

// Validate reports everything that is wrong with c.
func (c MemoryConfig) Validate() error {
	var errs []error
	if c.Retention < 0 {
		errs = append(errs, fmt.Errorf("inbox: negative Retention %v", c.Retention))
	}
	if c.MaxKeys < 0 {
		errs = append(errs, fmt.Errorf("inbox: negative MaxKeys %d", c.MaxKeys))
	}
	return errors.Join(errs...)
}

// A Memory is a [Seen] that remembers keys in the memory of this process. A second call of a
// key that is being handled waits, as long as its context lasts.
type Memory struct {
	retention time.Duration
	maxKeys   int

	mu   sync.Mutex
	keys map[string]*memoryKey
	kept list.List // of *memoryKey, by the time at which they were kept
}

// A memoryKey is a key that is kept, or whose function runs.
type memoryKey struct {
	key     string
	done    chan struct{} // closed when its function has ended
	place   *list.Element // in Memory.kept; nil while its function runs
	expires time.Time
}

var _ Seen = (*Memory)(nil)

// NewMemory returns a Memory without keys.
func NewMemory(c MemoryConfig) (*Memory, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := &Memory{retention: c.Retention, maxKeys: c.MaxKeys, keys: make(map[string]*memoryKey)}
	if m.retention == 0 {
		m.retention = DefaultRetention
	}
	if m.maxKeys == 0 {
		m.maxKeys = DefaultMaxKeys
	}
	return m, nil
}

// Once runs fn unless key is kept. See [Seen].
func (m *Memory) Once(ctx context.Context, key string, fn func(ctx context.Context) error) (first bool, err error) {
	k, err := m.claim(ctx, key)
	if k == nil {
		return false, err
	}
	keep := false
	defer func() { m.settle(k, keep) }() // also when fn panics
	if err := fn(ctx); err != nil {
		return false, err
	}
	keep = true
	return true, nil
}

// claim returns the key, in which no other function runs, or nil where it is kept.
func (m *Memory) claim(ctx context.Context, key string) (*memoryKey, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, &Error{Code: CodeUnavailable, Op: "claim", Key: key, Err: err}
		}
		k, other, err := m.take(key)
		if k != nil || other == nil {
			return k, err
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, &Error{Code: CodeBusy, Op: "claim", Key: key, Err: ctx.Err()}
		}
	}
}

var errFull = errors.New("every key that it has room for is being handled")

// take returns the key if it is free; else, if a function runs in it, what is closed at that
// one's end.
func (m *Memory) take(key string) (k *memoryKey, other <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(time.Now())
	if k, taken := m.keys[key]; taken {
		if k.place != nil {
			return nil, nil, nil
		}
		return nil, k.done, nil
	}
	if len(m.keys) >= m.maxKeys {
		oldest := m.kept.Front()
		if oldest == nil {
			return nil, nil, &Error{Code: CodeUnavailable, Op: "claim", Key: key, Err: errFull}
		}
		m.forget(oldest)
	}
	k = &memoryKey{key: strings.Clone(key), done: make(chan struct{})}
	m.keys[k.key] = k
	return k, nil, nil
}

// settle ends the claim on a key.
func (m *Memory) settle(k *memoryKey, keep bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if keep {
		k.place, k.expires = m.kept.PushBack(k), time.Now().Add(m.retention)
	} else {
		delete(m.keys, k.key)
	}
	close(k.done)
}

// expire forgets what has been kept for long enough. The first was kept first.
func (m *Memory) expire(now time.Time) {
	for e := m.kept.Front(); e != nil && !now.Before(e.Value.(*memoryKey).expires); e = m.kept.Front() {
		m.forget(e)
	}
}

func (m *Memory) forget(e *list.Element) {
	delete(m.keys, m.kept.Remove(e).(*memoryKey).key)
}
