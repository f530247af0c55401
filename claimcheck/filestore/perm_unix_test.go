//go:build unix

package filestore_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
)

func TestPermissions(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o777} {
		parent := t.TempDir()
		func() {
			defer syscall.Umask(syscall.Umask(umask))
			s, err := filestore.New(filepath.Join(parent, "store"))
			if err != nil {
				t.Fatalf("umask %#o: %v", umask, err)
			}
			defer s.Close()
			if err := s.Put(context.Background(), newKey(t, "a", time.Now()), section([]byte("body"))); err != nil {
				t.Fatalf("umask %#o: %v", umask, err)
			}
		}()
		n := 0
		err := filepath.WalkDir(parent, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || name == parent {
				return err
			}
			n++
			info, err := entry.Info()
			want := fs.FileMode(0o600)
			if entry.IsDir() {
				want = fs.ModeDir | 0o700
			}
			if err == nil && info.Mode() != want {
				t.Errorf("umask %#o: %s has the mode %v, want %v", umask, name, info.Mode(), want)
			}
			return err
		})
		if err != nil || n != 6 {
			t.Errorf("umask %#o: the store has %d files and folders, want 6: %v", umask, n, err)
		}
	}
}

// TestOtherFiles: what no Store has put there is not read, listed, deleted or overwritten, and
// is no missing object either.
func TestOtherFiles(t *testing.T) {
	ctx := context.Background()
	outside := filepath.Join(t.TempDir(), "outside")
	for _, test := range []struct {
		name string
		at   string // "object", "day" or "tenant"
		make func(name string) error
	}{
		{"a link to a file outside", "object", func(name string) error { return os.Symlink(filepath.Join(outside, "file"), name) }},
		{"a link to an object", "object", func(name string) error { return os.Symlink("../dt=2026-01-16/object", name) }},
		{"a link to nothing", "object", func(name string) error { return os.Symlink("nothing", name) }},
		{"a folder", "object", func(name string) error { return os.Mkdir(name, 0o700) }},
		{"a named pipe", "object", func(name string) error { return syscall.Mkfifo(name, 0o600) }},
		{"a socket", "object", func(name string) error { return listen(t, name) }},
		{"a link to a folder outside for a day", "day", func(name string) error { return os.Symlink(outside, name) }},
		{"a link to another day", "day", func(name string) error { return os.Symlink("dt=2026-01-16", name) }},
		{"a file for a day", "day", func(name string) error { return os.WriteFile(name, nil, 0o600) }},
		{"a link to a folder outside for a tenant", "tenant", func(name string) error { return os.Symlink(outside, name) }},
		{"a link to another tenant", "tenant", func(name string) error { return os.Symlink("tenant=b", name) }},
		{"a file for a tenant", "tenant", func(name string) error { return os.WriteFile(name, nil, 0o600) }},
	} {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			s, dir := newStore(t)
			key := newKey(t, "a", time.Date(2026, time.January, 15, 0, 0, 0, 0, time.UTC))
			id := path.Base(key)
			// What a link may lead to.
			for _, name := range []string{
				filepath.Join(dir, "claims/tenant=a/dt=2026-01-16", id), filepath.Join(dir, "claims/tenant=a/dt=2026-01-16/object"),
				filepath.Join(dir, "claims/tenant=b/dt=2026-01-15", id), filepath.Join(outside, "dt=2026-01-15", id), filepath.Join(outside, id), filepath.Join(outside, "file"),
			} {
				write(t, name, "somebody else's")
			}
			name := filepath.Join(dir, filepath.FromSlash(map[string]string{"object": key, "day": path.Dir(key), "tenant": path.Dir(path.Dir(key))}[test.at]))
			if err := os.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), test.make(name)); err != nil {
				t.Fatal(err)
			}
			before := tree(t, filepath.Dir(outside)) + tree(t, dir)

			if r, err := s.Get(ctx, key, 0, 100); !errors.Is(err, claimcheck.ErrUnavailable) {
				t.Errorf("Get: %v, %v, want an ErrUnavailable", r, err)
			}
			err := s.Put(ctx, key, section([]byte("body")))
			if want := map[bool]error{true: claimcheck.ErrExists, false: claimcheck.ErrUnavailable}[test.at == "object"]; !errors.Is(err, want) {
				t.Errorf("Put: %v, want %v", err, want)
			}
			if err := s.Delete(ctx, key); !errors.Is(err, claimcheck.ErrUnavailable) {
				t.Errorf("Delete: %v, want an ErrUnavailable", err)
			}
			for k, err := range s.List(ctx, "claims/tenant=a/dt=2026-01-15") {
				t.Errorf("List: %q, %v", k, err)
			}
			if after := tree(t, filepath.Dir(outside)) + tree(t, dir); after != before {
				t.Errorf("changed:\n%s\nto:\n%s", before, after)
			}
		})
	}
}
