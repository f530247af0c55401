package filestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
)

// crash puts an object and is killed in front of the system call of a number, which it says.
func crash(args []string) error {
	s, err := filestore.New(args[0])
	if err != nil {
		return err
	}
	at, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	traced(func() { err = s.Put(ctx, args[1], section(bodyOf(args[1], ""))) }, func(n int, c call) syscall.Errno {
		if n == at {
			fmt.Println(c.name)
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				panic(err)
			}
			select {} // it is on its way
		}
		return 0
	})
	return err
}

// TestCrash kills a process in front of each system call of a Put. The object is absent until
// it is linked, and whole from then on; another process can put it if it is absent.
func TestCrash(t *testing.T) {
	created, linked := false, false
	for at := 0; ; at++ {
		s, dir := newStore(t)
		key := newKey(t, "a", time.Now())
		cmd := exec.Command(os.Args[0], dir, key, strconv.Itoa(at))
		cmd.Env = append(os.Environ(), processVariable+"=crash")
		out, err := cmd.Output()
		name := string(bytes.TrimSpace(out))
		var exit *exec.ExitError
		if killed := errors.As(err, &exit) && !exit.Exited(); !killed {
			if err != nil || name != "" || at < 12 {
				t.Fatalf("the process ended after %d calls: %v", at, err)
			}
			return // it has no such call any more
		}
		if n := len(files(t, dir)); n > 0 != created {
			t.Errorf("killed before call %d, %s: %d files are left", at, name, n)
		}
		got, err := contents(s, key)
		switch {
		case linked && (err != nil || !bytes.Equal(got, bodyOf(key, ""))):
			t.Errorf("killed before call %d, %s: the object has %d bytes: %v", at, name, len(got), err)
		case !linked && !errors.Is(err, claimcheck.ErrNotFound):
			t.Errorf("killed before call %d, %s: Get: %v", at, name, err)
		}
		if n := len(keys(t, s)); n > 0 != linked {
			t.Errorf("killed before call %d, %s: List has %d keys", at, name, n)
		}
		// The folders and files that it has left are in nobody's way.
		err = s.Put(ctx, key, section(bodyOf(key, "")))
		if linked && !errors.Is(err, claimcheck.ErrExists) || !linked && err != nil {
			t.Errorf("killed before call %d, %s: Put again: %v", at, name, err)
		}
		if got, err := contents(s, key); err != nil || !bytes.Equal(got, bodyOf(key, "")) {
			t.Errorf("killed before call %d, %s: the object of another process has %d bytes: %v", at, name, len(got), err)
		}
		if n, err := s.DeleteLeftovers(ctx, time.Now().Add(time.Hour)); n > 0 != created || err != nil {
			t.Errorf("killed before call %d, %s: DeleteLeftovers: %d, %v", at, name, n, err)
		}
		if got, err := contents(s, key); err != nil || !bytes.Equal(got, bodyOf(key, "")) {
			t.Errorf("killed before call %d, %s: after DeleteLeftovers the object has %d bytes: %v", at, name, len(got), err)
		}
		created = created || name == "create"
		linked = linked || name == "linkat"
	}
}
