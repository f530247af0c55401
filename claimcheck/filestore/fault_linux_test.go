package filestore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	"github.com/watermill-envelope/envelope/claimcheck/storetest"
)

// TestEveryCallFails has each system call of a Put fail, one per store. The object is absent
// then, or whole, and nothing is left behind.
func TestEveryCallFails(t *testing.T) {
	body := bytes.Repeat([]byte("body"), 100_000)
	for n := 0; ; n++ {
		s, dir := newStore(t)
		key := newKey(t, "a", time.Now())
		var failed call
		var err error
		traced(func() { err = s.Put(ctx, key, section(body)) }, func(i int, c call) syscall.Errno {
			if i != n || c.name == "unlinkat" {
				return 0
			}
			failed = c
			return syscall.EIO
		})
		if failed.name == "" { // all of them have, but the one that TestTempThatCannotBeRemoved has fail
			if n != 12 || err != nil {
				t.Errorf("a Put has %d calls that can fail, want 12: %v", n, err)
			}
			break
		}
		if !errors.Is(err, claimcheck.ErrUnavailable) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%s failed: %v, want an ErrUnavailable of EIO", failed.text, err)
		}
		if got := files(t, dir); len(got) != 0 {
			t.Errorf("%s failed, which left %q", failed.text, got)
		}
		got, err := contents(s, key)
		switch {
		case errors.Is(err, claimcheck.ErrNotFound):
			if listed := keys(t, s); len(listed) != 0 {
				t.Errorf("%s failed: List has %q, which Get does not find", failed.text, listed)
			}
			if err := s.Put(ctx, key, section(body)); err != nil {
				t.Errorf("Put again after %s failed: %v", failed.text, err)
			}
			got, err = contents(s, key)
		case failed.name != "fsync":
			t.Errorf("%s failed, and the object is there: %v", failed.text, err)
		}
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("after %s failed the object has %d bytes of %d: %v", failed.text, len(got), len(body), err)
		}
	}
}

func TestTempThatCannotBeRemoved(t *testing.T) {
	s, dir := newStore(t)
	key := newKey(t, "a", time.Now())
	failing(syscall.EIO, func() {
		if err := s.Put(ctx, key, section([]byte("body"))); err != nil {
			t.Errorf("Put: %v", err)
		}
	}, "unlinkat")
	if got, err := contents(s, key); err != nil || string(got) != "body" {
		t.Errorf("the object is %q, %v", got, err)
	}
	if got := files(t, dir); len(got) != 1 {
		t.Errorf("left %q", got)
	}
	// Its other name is the object, which stays when a sweeper has removed it.
	if n, err := s.DeleteLeftovers(ctx, time.Now().Add(time.Hour)); n != 1 || err != nil {
		t.Errorf("DeleteLeftovers: %d, %v", n, err)
	}
	if got, err := contents(s, key); err != nil || string(got) != "body" {
		t.Errorf("after DeleteLeftovers the object is %q, %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	for _, test := range []struct {
		what  string
		errno syscall.Errno
		calls []string
		want  error
	}{
		{"the disk is full when it is written", syscall.ENOSPC, []string{"write"}, claimcheck.ErrUnavailable},
		{"the disk is full when it is synchronised", syscall.ENOSPC, []string{"fsync"}, claimcheck.ErrUnavailable},
		{"the disk is full of names", syscall.ENOSPC, []string{"linkat"}, claimcheck.ErrUnavailable},
		{"the quota is used", syscall.EDQUOT, []string{"create"}, claimcheck.ErrUnavailable},
		{"the file system can be read only", syscall.EROFS, []string{"create", "mkdirat"}, claimcheck.ErrUnavailable},
		{"too many files are open", syscall.EMFILE, []string{"create"}, claimcheck.ErrUnavailable},
		{"too many files are open in the system", syscall.ENFILE, []string{"create"}, claimcheck.ErrUnavailable},
		{"the disk is broken", syscall.EIO, []string{"fsync"}, claimcheck.ErrUnavailable},
		{"the server is gone", syscall.ESTALE, []string{"create"}, claimcheck.ErrUnavailable},
		{"claims is on another file system", syscall.EXDEV, []string{"linkat"}, claimcheck.ErrUnavailable},
		{"the folder is gone", syscall.ENOENT, []string{"linkat"}, claimcheck.ErrUnavailable},
		{"no right to make files", syscall.EACCES, []string{"create"}, claimcheck.ErrForbidden},
		{"no right to make folders", syscall.EACCES, []string{"mkdirat"}, claimcheck.ErrForbidden},
		{"no right to link", syscall.EACCES, []string{"linkat"}, claimcheck.ErrForbidden},
		{"no right to link or rename", syscall.EPERM, []string{"linkat", "renameat"}, claimcheck.ErrForbidden},
	} {
		s, dir := newStore(t)
		key := newKey(t, "a", time.Now())
		failing(test.errno, func() {
			err := s.Put(ctx, key, section(make([]byte, 1000)))
			if !errors.Is(err, test.want) || !errors.Is(err, test.errno) {
				t.Errorf("%s: %v, want an error that is %v and %v", test.what, err, test.want, test.errno)
			}
		}, test.calls...)
		if _, err := contents(s, key); !errors.Is(err, claimcheck.ErrNotFound) {
			t.Errorf("%s: Get after it: %v", test.what, err)
		}
		if got := files(t, dir); len(got) != 0 {
			t.Errorf("%s: left %q", test.what, got)
		}
	}
}

// A linkless store is on a file system that has no links.
type linkless struct {
	*filestore.Store
	errno syscall.Errno
}

func (l linkless) Put(ctx context.Context, key string, obj *io.SectionReader) (err error) {
	failing(l.errno, func() { err = l.Store.Put(ctx, key, obj) }, "linkat")
	return err
}

func TestWithoutLinks(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOTSUP, syscall.ENOSYS} {
		s, dir := newStore(t)
		l := linkless{s, errno}
		key := newKey(t, "a", time.Now())
		if err := l.Put(ctx, key, section([]byte("first"))); err != nil {
			t.Errorf("%v: Put: %v", errno, err)
		}
		if err := l.Put(ctx, key, section([]byte("second"))); !errors.Is(err, claimcheck.ErrExists) {
			t.Errorf("%v: Put of a key that is taken: %v", errno, err)
		}
		if got, err := contents(s, key); err != nil || string(got) != "first" {
			t.Errorf("%v: the object is %q, %v", errno, got, err)
		}
		if got := files(t, dir); len(got) != 0 {
			t.Errorf("%v: left %q", errno, got)
		}
	}
	storetest.Run(t, storetest.Harness{New: func(t *testing.T) claimcheck.Store {
		s, _ := newStore(t)
		return linkless{s, syscall.EPERM}
	}})
}

// TestSyncNotSupported: some file systems cannot synchronise folders.
func TestSyncNotSupported(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EINVAL, syscall.ENOTSUP} {
		s, _ := newStore(t)
		key := newKey(t, "a", time.Now())
		var err error
		traced(func() { err = s.Put(ctx, key, section([]byte("body"))) }, func(_ int, c call) syscall.Errno {
			if c.name == "fsync" && !randomName.MatchString(c.text) {
				return errno
			}
			return 0
		})
		if err != nil {
			t.Errorf("%v: Put: %v", errno, err)
		}
		// But a file must be.
		key = newKey(t, "a", time.Now())
		failing(errno, func() { err = s.Put(ctx, key, section([]byte("body"))) }, "fsync")
		if !errors.Is(err, claimcheck.ErrUnavailable) {
			t.Errorf("%v: Put to a disk that cannot synchronise files: %v", errno, err)
		}
	}
}
