package filestore_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	"github.com/watermill-envelope/envelope/claimcheck/storetest"
)

// newStore returns a Store in a new folder.
func newStore(t testing.TB) (s *filestore.Store, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	return openStore(t, dir), dir
}

func openStore(t testing.TB, dir string) *filestore.Store {
	t.Helper()
	s, err := filestore.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// foldsCase reports whether the file system takes claims and CLAIMS for the same.
func foldsCase(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, "CLAIMS"))
	return err == nil
}

// TestFoldedCase: a store that takes its file system for one that does not tell upper from
// lower case is as good as another.
func TestFoldedCase(t *testing.T) {
	_, dir := newStore(t)
	storetest.Run(t, storetest.Harness{FoldsCase: foldsCase(dir), New: func(t *testing.T) claimcheck.Store {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "CLAIMS"), 0o700); err != nil {
			t.Fatal(err)
		}
		return openStore(t, dir)
	}})
}

func TestStore(t *testing.T) {
	_, dir := newStore(t)
	storetest.Run(t, storetest.Harness{
		FoldsCase: foldsCase(dir),
		New: func(t *testing.T) claimcheck.Store {
			s, _ := newStore(t)
			return s
		},
		Forbidden: func(t *testing.T) claimcheck.Store {
			s, dir := newStore(t)
			if err := os.Chmod(dir, 0); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
			return ordinary(s)
		},
		Unavailable: func(t *testing.T) claimcheck.Store {
			s, dir := newStore(t)
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			return s
		},
	})
}
