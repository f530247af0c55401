package filestore_test

import (
	"context"
	"io"
	"iter"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// ordinary returns a store whose calls have no rights but those of an ordinary user: for root
// a file's permissions mean nothing. Rights are a thread's, and a Store does its work in the
// goroutine that calls it.
func ordinary(s claimcheck.DayStore) claimcheck.PrunableStore {
	if os.Geteuid() != 0 {
		return s
	}
	return ordinaryStore{s}
}

type ordinaryStore struct{ s claimcheck.DayStore }

func (o ordinaryStore) Put(ctx context.Context, key string, obj *io.SectionReader) error {
	defer dropRights()()
	return o.s.Put(ctx, key, obj)
}

func (o ordinaryStore) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	defer dropRights()()
	return o.s.Get(ctx, key, off, n)
}

func (o ordinaryStore) Delete(ctx context.Context, key string) error {
	defer dropRights()()
	return o.s.Delete(ctx, key)
}

func (o ordinaryStore) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		defer dropRights()()
		o.s.List(ctx, prefix)(yield)
	}
}

// dropRights takes from this thread what lets it pass over permissions, until restore.
func dropRights() (restore func()) {
	const (
		version     = 0x20080522 // _LINUX_CAPABILITY_VERSION_3
		dacOverride = 1 << 1
		dacRead     = 1 << 2
	)
	type header struct {
		version uint32
		pid     int32
	}
	type data [2]struct{ effective, permitted, inheritable uint32 }
	call := func(number uintptr, d *data) {
		h := header{version: version}
		if _, _, errno := syscall.RawSyscall(number, uintptr(unsafe.Pointer(&h)), uintptr(unsafe.Pointer(d)), 0); errno != 0 {
			panic(errno)
		}
	}
	runtime.LockOSThread()
	var had data
	call(syscall.SYS_CAPGET, &had)
	without := had
	without[0].effective &^= dacOverride | dacRead
	call(syscall.SYS_CAPSET, &without)
	return func() {
		call(syscall.SYS_CAPSET, &had)
		runtime.UnlockOSThread()
	}
}
