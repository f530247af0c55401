// Package cache keeps what the tests download or build, outside the checkout, one folder
// per name and version: jars, virtual environments, compiled peers.
package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Root is the folder of everything cached: watermill-envelope in the user's cache folder
// ($XDG_CACHE_HOME, or .cache in the home folder). It may not exist yet.
func Root() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	return filepath.Join(dir, "watermill-envelope"), nil
}

// Dir returns the folder called name below [Root]. When it is not there, fill makes its
// contents in a temporary folder beside it, which then takes the name in one step: a folder
// with the name is always complete. The name holds everything that decides the contents,
// such as versions and the hash of a lock file, because a folder is never filled again.
//
// fill must not write its folder's path into the contents, since the folder moves; where
// that cannot be avoided use [InPlace]. Processes that ask for one name at a time wait for
// each other, and only the first fills it.
func Dir(ctx context.Context, name string, fill func(ctx context.Context, dir string) error) (string, error) {
	return locked(name, func(dir string) error {
		if _, err := os.Stat(dir); err == nil {
			return nil
		}
		tmp, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".tmp-*")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		if err := fill(ctx, tmp); err != nil {
			return err
		}
		if err := os.Chmod(tmp, 0o755); err != nil {
			return err
		}
		return os.Rename(tmp, dir)
	})
}

// InPlace is [Dir] for contents that hold their own path, such as a Python virtual
// environment: fill works in the final folder, and a file beside it says that it finished.
// A folder without that file is emptied and filled again.
func InPlace(ctx context.Context, name string, fill func(ctx context.Context, dir string) error) (string, error) {
	return locked(name, func(dir string) error {
		done := dir + ".complete"
		if _, err := os.Stat(done); err == nil {
			return nil
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := fill(ctx, dir); err != nil {
			return errors.Join(err, os.RemoveAll(dir))
		}
		return os.WriteFile(done, nil, 0o644)
	})
}

// locked calls prepare with the folder of name while it holds the lock of that name, which
// ends with the process at the latest.
func locked(name string, prepare func(dir string) error) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	defer lock.Close()
	if err := flock(lock); err != nil {
		return "", fmt.Errorf("cache: lock %s: %w", name, err)
	}
	if err := prepare(dir); err != nil {
		return "", fmt.Errorf("cache: %s: %w", name, err)
	}
	return dir, nil
}

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
