package filestore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// newKey returns the key of a new pack.
func newKey(t testing.TB, tenant string, at time.Time) string {
	t.Helper()
	ref, err := claimcheck.NewPackRef(tenant, at)
	if err != nil {
		t.Fatal(err)
	}
	return ref.Key()
}

func section(data []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))
}

func write(t testing.TB, name, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// listen makes a socket.
func listen(t testing.TB, name string) error {
	// The name of a socket is short.
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	short := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return errors.Join(l.Close(), os.Rename(short, name))
}

// tree says what is in a folder, but for what is being written.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Name() == ".incoming" {
			return fs.SkipDir
		}
		b.WriteString(name + " " + entry.Type().String())
		if entry.Type().IsRegular() {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			b.WriteString(" " + string(data))
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var ctx = context.Background()

// contents returns the object under a key, or why there is none.
func contents(s claimcheck.Store, key string) ([]byte, error) {
	r, err := s.Get(ctx, key, 0, 1<<40)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func keys(t testing.TB, s claimcheck.PrunableStore) []string {
	t.Helper()
	var all []string
	for key, err := range s.List(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, key)
	}
	return all
}

// files returns the names in .incoming.
func files(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, ".incoming"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
