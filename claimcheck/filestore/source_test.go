package filestore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
)

type sourceFunc func(p []byte, off int64) (int, error)

func (f sourceFunc) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

// TestSourceErrors: what the source says is nothing that the folder says, whatever it is.
func TestSourceErrors(t *testing.T) {
	s, dir := newStore(t)
	for _, cause := range []error{fs.ErrPermission, fs.ErrExist, fs.ErrNotExist, claimcheck.ErrExists} {
		source := sourceFunc(func([]byte, int64) (int, error) { return 0, cause })
		err := s.Put(ctx, newKey(t, "a", time.Now()), io.NewSectionReader(source, 0, 10))
		var e *claimcheck.Error
		if !errors.As(err, &e) || e.Code != claimcheck.CodeUnavailable || !errors.Is(err, cause) {
			t.Errorf("Put of a source that fails with %v: %v, want CodeUnavailable and the cause", cause, err)
		}
	}
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("left %q", got)
	}
}

// TestContextBetweenBlocks: a Put does not go on reading when nobody waits for it any more.
func TestContextBetweenBlocks(t *testing.T) {
	s, _ := newStore(t)
	data := make([]byte, 4<<20)
	c, cancel := context.WithCancel(ctx)
	defer cancel()
	read := 0
	source := sourceFunc(func(p []byte, off int64) (int, error) {
		cancel()
		read += len(p)
		return bytes.NewReader(data).ReadAt(p, off)
	})
	err := s.Put(c, newKey(t, "a", time.Now()), io.NewSectionReader(source, 0, int64(len(data))))
	if !errors.Is(err, context.Canceled) || read > 1<<20 {
		t.Errorf("Put read %d bytes, the first of which ended its context: %v", read, err)
	}
}
