package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/watermill-envelope/envelope/claimcheck"
)

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

var putCases = []Case{
	rule("put-get", "Get returns the bytes that Put stored, whatever their values and their number", putGet),
	rule("put-section", "Put stores what obj has from its start to its end: not what is below it, and whatever was read of it before", putSection),
	rule("put-copies", "Put does not keep obj or its bytes: the caller may use the memory again once it has returned", putCopies),
	rule("put-exists", "Put under a key that is taken fails with CodeExists and leaves the object as it was, even if the bytes are the same", putExists),
	rule("put-concurrent-equal", "Of many Puts of one key at a time exactly one succeeds, the others fail with CodeExists, and the object is what that one had", putConcurrentEqual),
	rule("put-concurrent", "Many Puts of different keys at a time all succeed, the first of a day and a tenant too", putConcurrent),
	rule("put-half", "Nobody sees an object before all of it was read", putHalf),
	rule("put-source-fails", "A Put whose obj cannot be read fails with CodeUnavailable and leaves nothing to see, and the key is free", putSourceFails),
	rule("put-source-short", "A Put whose obj has fewer bytes than its size fails with CodeUnavailable and leaves nothing to see: it does not store what there is", putSourceShort),
}

func putGet(c *check) {
	s := c.store()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for i, data := range [][]byte{
		{},
		{0},
		every,
		[]byte("PK\x03\x04\r\n\x1a\r\n%%EOF\n\n"), // bytes that text modes and sniffers like
		pattern(1, 4095), pattern(2, 4096), pattern(3, 4097),
		pattern(4, 1<<20), pattern(5, 1<<20+1), pattern(6, 5<<20+77),
	} {
		k := key("round", day, i)
		c.put(s, k, data)
		c.holds(s, k, data)
		c.holds(s, k, data) // reading changes nothing
	}
}

func putSection(c *check) {
	s := c.store()
	below := pattern(1, 300_000)
	object := below[1000:201_000]
	obj := io.NewSectionReader(bytes.NewReader(below), 1000, int64(len(object)))
	if _, err := obj.Seek(77_777, io.SeekStart); err != nil {
		c.Fatalf("Seek: %v", err)
	}
	k := key("section", day, 1)
	if err := s.Put(c.Ctx, k, obj); err != nil {
		c.Fatalf("Put of an obj that was read from: %v", err)
	}
	c.holds(s, k, object)
}

func putCopies(c *check) {
	s := c.store()
	data := pattern(1, 200_000)
	want := bytes.Clone(data)
	var returned atomic.Bool
	var late atomic.Int32
	obj := sectionOf(&hooked{data, func(int64, int64) error {
		if returned.Load() {
			late.Add(1)
		}
		return nil
	}}, len(data))
	k := key("copies", day, 1)
	if err := s.Put(c.Ctx, k, obj); err != nil {
		c.Fatalf("Put: %v", err)
	}
	returned.Store(true)
	clear(data)
	c.holds(s, k, want)
	if n := late.Load(); n > 0 {
		c.Errorf("obj was read %d times after Put had returned", n)
	}
}

func putExists(c *check) {
	s := c.store()
	for i, other := range [][]byte{pattern(1, 5000), pattern(2, 5000), pattern(3, 10), pattern(4, 9000), {}} {
		k, first := key("exists", day, i), pattern(1, 5000)
		c.put(s, k, first)
		for range 2 {
			err := s.Put(c.Ctx, k, section(other))
			c.wantErr(sprintf("Put of %d bytes under a key that is taken", len(other)), err, claimcheck.ErrExists, k)
			c.holds(s, k, first)
		}
	}
	empty := key("exists", day, 100)
	c.put(s, empty, nil)
	c.wantErr("Put under the key of an empty object", s.Put(c.Ctx, empty, section(pattern(1, 10))), claimcheck.ErrExists, empty)
	c.holds(s, empty, nil)
}

func putConcurrentEqual(c *check) {
	s := c.store()
	const puts = 16
	for round := range 8 {
		k := key("equal", day, round)
		objects := make([][]byte, puts)
		errs := make([]error, puts)
		for i := range objects {
			objects[i] = pattern(byte(i), 50_000+i)
		}
		each(puts, func(i int) { errs[i] = s.Put(c.Ctx, k, yielding(objects[i])) })
		winner := -1
		for i, err := range errs {
			switch {
			case err != nil:
				c.wantErr("Put beside others of the same key", err, claimcheck.ErrExists, k)
			case winner >= 0:
				c.Errorf("two Puts of one key succeeded")
			default:
				winner = i
			}
		}
		if winner < 0 {
			c.Fatalf("no Put of %d under one key succeeded", puts)
		}
		c.holds(s, k, objects[winner])
	}
}

func putConcurrent(c *check) {
	s := c.store()
	const puts = 32
	at := func(i int) string { return key(sprintf("tenant-%d", i%4), day.AddDate(0, 0, i%8), i) }
	each(puts, func(i int) {
		if err := s.Put(c.Ctx, at(i), yielding(pattern(byte(i), 3000))); err != nil {
			c.Errorf("Put of a key of its own beside others: %v", err)
		}
	})
	for i := range puts {
		c.holds(s, at(i), pattern(byte(i), 3000))
	}
}

// putHalf stops the source in the middle and looks from there.
func putHalf(c *check) {
	s := c.store()
	data := pattern(1, 6<<20)
	k := key("half", day, 1)
	reached, look := make(chan struct{}), make(chan struct{})
	var once sync.Once
	obj := sectionOf(&hooked{data, func(off, n int64) error {
		if off+n > int64(len(data)/2) {
			once.Do(func() { close(reached) })
			<-look
		}
		return nil
	}}, len(data))
	put := make(chan error, 1)
	go func() { put <- s.Put(c.Ctx, k, obj) }()
	select {
	case <-reached:
	case err := <-put:
		close(look)
		c.Fatalf("Put returned before it had read all of obj: %v", err)
	}
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		c.absent(s, k)
	}()
	select {
	case <-looked:
	case <-c.Ctx.Done():
		c.Errorf("Get waits for a Put of the same key")
	}
	close(look)
	if err := <-put; err != nil {
		c.Fatalf("Put: %v", err)
	}
	c.holds(s, k, data)
}

func putSourceFails(c *check) {
	s := c.store()
	data := pattern(1, 3<<20)
	broken := errors.New("the disk below is broken")
	for i, from := range []int64{0, 1 << 20, int64(len(data)) - 1} {
		k := key("fails", day, i)
		err := s.Put(c.Ctx, k, sectionOf(&hooked{data, func(off, n int64) error {
			if off+n > from {
				return broken
			}
			return nil
		}}, len(data)))
		c.wantErr(sprintf("Put of an obj that cannot be read from %d on", from), err, claimcheck.ErrUnavailable, k)
		c.absent(s, k)
		c.put(s, k, data)
		c.holds(s, k, data)
	}
}

func putSourceShort(c *check) {
	s := c.store()
	data := pattern(1, 3<<20)
	for i, n := range []int{0, 1, 1 << 20, len(data) - 1} {
		k := key("short", day, i)
		err := s.Put(c.Ctx, k, sectionOf(bytes.NewReader(data[:n]), len(data)))
		c.wantErr(sprintf("Put of an obj of size %d that has %d bytes", len(data), n), err, claimcheck.ErrUnavailable, k)
		c.absent(s, k)
	}
}
