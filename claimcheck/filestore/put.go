package filestore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// Put stores obj under key. See [claimcheck.Store], and the package for how.
func (s *Store) Put(ctx context.Context, key string, obj *io.SectionReader) error {
	const op = "put"
	if err := check(ctx, op, key); err != nil {
		return err
	}
	err := s.put(ctx, key, obj)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTaken):
		return &claimcheck.Error{Code: claimcheck.CodeExists, Op: op, Key: key}
	}
	return failure(op, key, err)
}

func (s *Store) put(ctx context.Context, key string, obj *io.SectionReader) error {
	// Before anything is written.
	if err := s.checkFolders(key); err == nil {
		if _, err := s.root.Lstat(key); err == nil {
			return errTaken
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	temp, err := s.write(ctx, obj)
	if err == nil {
		err = s.publish(ctx, temp, key)
	}
	if temp != "" {
		// Its other name is the object now, or nothing is. One that cannot be removed waits
		// for a sweeper.
		_ = s.root.Remove(temp)
	}
	return err
}

var errTaken = errors.New("taken")

// A sourceError is the error of reading what is to be put: nothing that the store said.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// write writes obj to a new file in .incoming, down to the disk, and returns its name, which
// is not empty once the file exists.
func (s *Store) write(ctx context.Context, obj *io.SectionReader) (temp string, err error) {
	if err := s.makeFolder(incomingName); err != nil {
		return "", err
	}
	var random [16]byte
	rand.Read(random[:])
	temp = incomingName + "/" + hex.EncodeToString(random[:])
	f, err := s.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return "", err
	}
	err = restore(f.Stat, f.Chmod, fileMode)
	if err == nil {
		err = s.copy(ctx, f, obj)
	}
	if err == nil {
		err = f.Sync()
	}
	return temp, errors.Join(err, f.Close())
}

// restore gives back what the umask took from the permissions of something new. Where nothing
// is missing it does nothing: there are file systems that know no permissions.
func restore(stat func() (fs.FileInfo, error), chmod func(fs.FileMode) error, mode fs.FileMode) error {
	info, err := stat()
	if err == nil && info.Mode()&mode != mode {
		err = chmod(mode)
	}
	return err
}

func (s *Store) copy(ctx context.Context, f *os.File, obj *io.SectionReader) error {
	buf, _ := s.buffers.Get().(*[copyBlock]byte)
	if buf == nil {
		buf = new([copyBlock]byte)
	}
	defer s.buffers.Put(buf)
	for off, size := int64(0), obj.Size(); off < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		block := buf[:min(copyBlock, size-off)]
		if n, err := obj.ReadAt(block, off); n < len(block) {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &sourceError{err}
		}
		if _, err := f.Write(block); err != nil {
			return err
		}
		off += int64(len(block))
	}
	return nil
}

// publish gives a file that is complete the name of its key, or fails with errTaken. The name
// is durable when it returns.
func (s *Store) publish(ctx context.Context, temp, key string) error {
	day := path.Dir(key)
	for try := 0; ; try++ {
		if err := s.makeFolders(day); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		err := s.root.Link(temp, key)
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EPERM) {
			err = s.rename(temp, key)
		}
		switch {
		case err == nil:
			return syncFolder(s.root.Open(day))
		case errors.Is(err, fs.ErrExist):
			return errTaken
		case !errors.Is(err, fs.ErrNotExist) || try > 0:
			return err
		}
		// A sweeper took the folder in between.
	}
}

// rename does as Link where there are no links. Between the two steps another process could
// put the key; another goroutine could not.
func (s *Store) rename(temp, key string) error {
	s.renaming.Lock()
	defer s.renaming.Unlock()
	if _, err := s.root.Lstat(key); err == nil {
		return fs.ErrExist
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.root.Rename(temp, key)
}

// makeFolders makes the folder of a day and the one above it, durably.
func (s *Store) makeFolders(day string) error {
	if err := s.checkFolder(claimsName); err != nil {
		return s.missing(err)
	}
	tenant := path.Dir(day)
	for _, name := range []string{tenant, day} {
		if err := s.makeFolder(name); err != nil {
			return err
		}
		if name == tenant && s.folds {
			if err := s.checkCase(tenant); errors.Is(err, fs.ErrNotExist) {
				return errFolds
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// makeFolder makes a folder, unless it is there. Its entry in the folder above is durable when
// it returns, whoever made it: another process may have, and not have come to that yet.
func (s *Store) makeFolder(name string) error {
	err := s.checkFolder(name)
	if err == nil && s.isKnown(name) {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.root.Mkdir(name, folderMode); err == nil {
			err = restore(
				func() (fs.FileInfo, error) { return s.root.Lstat(name) },
				func(mode fs.FileMode) error { return s.root.Chmod(name, mode) },
				folderMode,
			)
		} else if errors.Is(err, fs.ErrExist) {
			err = s.checkFolder(name)
		}
	}
	if err != nil {
		return err
	}
	if err := syncFolder(s.root.Open(path.Dir(name))); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[name] = true
	return nil
}

func (s *Store) isKnown(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[name]
}

// forget has a folder looked at again, that was removed.
func (s *Store) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, name)
}
