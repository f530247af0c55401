package storetest

import (
	"bytes"
	"io"
	"math"
	"testing/iotest"

	"github.com/watermill-envelope/envelope/claimcheck"
)

var getCases = []Case{
	rule("get-missing", "Get of a key that is not there fails with CodeNotFound, before anything is read", getMissing),
	rule("get-range", "Get returns the bytes [off, off+n), fewer when the object ends before, none when it ends at or before off, which is no error", getRange),
	rule("get-empty", "An empty object is there, with nothing to read: it is not a missing one", getEmpty),
	rule("get-reader", "The reader follows the rules of io.Reader, to the end and after it", getReader),
	rule("get-close-early", "Close before the end frees everything that the reader held", getCloseEarly),
	rule("get-concurrent", "Any number of goroutines read at the same time, and each gets its own range", getConcurrent),
}

func getMissing(c *check) {
	s := c.store()
	c.absent(s, key("missing", day, 1))
	c.put(s, key("missing", day, 2), pattern(1, 100))
	// Beside it, on another day, of another tenant.
	for _, k := range []string{key("missing", day, 3), key("missing", day.AddDate(0, 0, 1), 2), key("missin", day, 2), key("missing2", day, 2)} {
		r, err := s.Get(c.Ctx, k, 0, 10)
		c.wantErr(sprintf("Get of %q", k), err, claimcheck.ErrNotFound, k)
		if err == nil {
			r.Close()
		}
		if _, err := get(c.Ctx, s, k, 100, 10); err == nil {
			c.Errorf("Get of %q at 100 succeeded, where there is no object", k)
		}
	}
}

func getRange(c *check) {
	s := c.store()
	data := pattern(1, 300_001)
	size := int64(len(data))
	k := key("range", day, 1)
	c.put(s, k, data)
	for _, r := range []struct{ off, n int64 }{
		{0, 1},
		{0, 39},
		{0, 65536},
		{0, size - 1},
		{0, size},
		{0, size + 1},
		{0, whole},
		{1, 1},
		{1, size - 1},
		{1, size},
		{4095, 2},
		{65535, 65537},
		{131072, 1},
		{size - 1, 1},
		{size - 1, 2},
		{size - 1, whole},
		{size - 10, 5},
		{size - 10, 10},
		{size, 1},
		{size, whole},
		{size + 1, 1},
		{size + 70_000, 100},
		{whole, 1},
		{1, math.MaxInt64 - 1},
		{size, math.MaxInt64 - size},
		{math.MaxInt64 - 1, 1},
	} {
		got, err := get(c.Ctx, s, k, r.off, r.n)
		if err != nil {
			c.Errorf("Get of %d bytes from %d of %d: %v", r.n, r.off, size, err)
			continue
		}
		from := min(r.off, size)
		if want := data[from : from+min(r.n, size-from)]; !bytes.Equal(got, want) {
			c.Errorf("Get of %d bytes from %d of %d: %s", r.n, r.off, size, difference(got, want))
		}
	}
}

func getEmpty(c *check) {
	s := c.store()
	k := key("empty", day, 1)
	c.put(s, k, nil)
	for _, r := range []struct{ off, n int64 }{{0, 1}, {0, whole}, {1, 1}, {5000, 5000}} {
		if got, err := get(c.Ctx, s, k, r.off, r.n); err != nil || len(got) != 0 {
			c.Errorf("Get of %d bytes from %d of an empty object: %d bytes, %v", r.n, r.off, len(got), err)
		}
	}
}

func getReader(c *check) {
	s := c.store()
	data := pattern(1, 40_000)
	k := key("reader", day, 1)
	c.put(s, k, data)
	for _, r := range []struct{ off, n int64 }{{0, whole}, {10_000, 20_000}, {30_000, 20_000}, {40_000, 1}} {
		rc, err := s.Get(c.Ctx, k, r.off, r.n)
		if err != nil {
			c.Fatalf("Get of %d bytes from %d: %v", r.n, r.off, err)
		}
		want := data[r.off:min(r.off+r.n, int64(len(data)))]
		if err := iotest.TestReader(rc, want); err != nil {
			c.Errorf("the reader of %d bytes from %d: %v", r.n, r.off, err)
		}
		if err := rc.Close(); err != nil {
			c.Errorf("Close after the end: %v", err)
		}
	}
}

func getCloseEarly(c *check) {
	s := c.store()
	data := pattern(1, 2<<20)
	k := key("early", day, 1)
	c.put(s, k, data)
	// More than a store of a test has connections.
	const readers = 300
	for i := range readers {
		r, err := s.Get(c.Ctx, k, 0, whole)
		if err != nil {
			c.Fatalf("Get after %d readers were closed early: %v", i, err)
		}
		if i%2 == 0 {
			if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
				c.Errorf("Read: %v", err)
			}
		}
		r.Close()
	}
	c.holds(s, k, data)
}

func getConcurrent(c *check) {
	s := c.store()
	data := pattern(1, 1<<20)
	k := key("many", day, 1)
	c.put(s, k, data)
	const readers = 200
	each(readers, func(i int) {
		off, n := int64(i)*5000, int64(1000+i*7)
		got, err := get(c.Ctx, s, k, off, n)
		if err != nil {
			c.Errorf("one of %d Gets at a time: %v", readers, err)
		} else if want := data[off : off+n]; !bytes.Equal(got, want) {
			c.Errorf("one of %d Gets at a time: %s", readers, difference(got, want))
		}
	})
}
