// Package filestore keeps the objects of a claim check in a folder: of one machine, or on a
// file system that several share. Any number of processes may use the same folder at the same
// time.
//
// # Layout
//
//	claims/tenant=<tenant>/dt=<YYYY-MM-DD>/<pack id>   an object, by its key
//	.incoming/                                         what is being written
//
// An object is written to .incoming under a name that nothing else has, synchronised with the
// disk, and then linked to its key, which only succeeds where that is free. Every folder whose
// entries that needs is synchronised too before Put returns. So a crash of the process or of
// the machine at any moment leaves an object whole or absent. What a crash leaves in .incoming
// is never read, and is removed by a [claimcheck.Sweeper] when it is a day old.
//
// Folders get the permissions 0700 and files 0600, whatever the umask. Nothing below claims is
// followed that is a symbolic link, and nothing is an object that is no regular file: both are
// errors that say so ([claimcheck.ErrUnavailable]), and List leaves them out.
//
// # File systems
//
// Everything is kept on one file system that knows hard links: those of Linux, macOS and
// Windows do, and NFS. Where links are missing (FAT, some FUSE file systems) an object is
// renamed to its key, which overwrites: two processes that put the same key at the same moment
// may both succeed then. The keys of a [claimcheck.Checker] are random, so that this does not
// happen by accident.
//
// Where the file system does not tell upper from lower case, the first of two tenants whose
// names differ in nothing else is the only one that can be stored: the other's Put fails, and
// a Get does not find the first one's objects.
//
// Windows has no way to synchronise a folder; there a crash of the machine may lose what was
// put in the seconds before it. A deletion is not synchronised anywhere: after such a crash
// what was deleted in the last seconds may be there again.
package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"

	"github.com/watermill-envelope/envelope/claimcheck"
)

const (
	claimsName   = "claims"
	incomingName = ".incoming"

	folderMode = 0o700
	fileMode   = 0o600

	// copyBlock is how much of an object is held, and how often a Put looks at its context.
	copyBlock = 256 << 10
	// maxKnown is how many folders are remembered as durable: a day of as many tenants.
	maxKnown = 10_000
)

// A Store keeps objects in a folder. It is a [claimcheck.DayStore], which a
// [claimcheck.Sweeper] needs. Any number of goroutines may use it, and any number of Stores
// the same folder. It is made by [New].
type Store struct {
	root  *os.Root
	folds bool // the file system does not tell upper from lower case

	mu    sync.Mutex
	known map[string]bool // folders whose own entry is durable

	renaming sync.Mutex // see publish
	buffers  sync.Pool  // of *[copyBlock]byte
}

var _ claimcheck.DayStore = (*Store)(nil)

// New returns a Store in a folder, which it creates where only the last part of its path is
// missing. The root of a file system is refused. The Store keeps to the folder even if that is
// moved; see [Store.Close].
func New(dir string) (*Store, error) {
	s, err := open(dir)
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	return s, nil
}

func open(dir string) (*Store, error) {
	if dir == "" {
		return nil, errors.New("the name of the folder is empty")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return nil, errors.New("the root of a file system is no folder for a store")
	}
	switch err := os.Mkdir(dir, folderMode); {
	case err == nil:
		err := restore(
			func() (fs.FileInfo, error) { return os.Lstat(dir) },
			func(mode fs.FileMode) error { return os.Chmod(dir, mode) },
			folderMode,
		)
		if err := errors.Join(err, syncFolder(os.Open(parent))); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrExist):
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{root: root, known: make(map[string]bool)}
	if err := s.prepare(); err != nil {
		root.Close()
		return nil, err
	}
	return s, nil
}

// prepare makes the folder of the objects, so that one that is missing later means that the
// store is gone, not the object.
func (s *Store) prepare() error {
	if err := s.makeFolder(claimsName); err != nil {
		return err
	}
	_, err := s.root.Lstat("CLAIMS")
	s.folds = err == nil
	return nil
}

// Close frees the handle of the folder. Nothing of the Store may be in use, or be used
// afterwards; readers that are open may be read to their end.
func (s *Store) Close() error { return s.root.Close() }

// Get returns the bytes [off, off+n) of the object. See [claimcheck.Store].
func (s *Store) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	const op = "get"
	if err := check(ctx, op, key); err != nil {
		return nil, err
	}
	if off < 0 || n < 0 {
		return nil, failure(op, key, errors.New("a negative range"))
	}
	f, size, err := s.openObject(key)
	if err != nil {
		return nil, failure(op, key, s.missing(err))
	}
	left := min(n, max(0, size-off))
	return &reader{ctx: ctx, key: key, file: f, off: off, left: left}, nil
}

// openObject opens the file of a key.
func (s *Store) openObject(key string) (f *os.File, size int64, err error) {
	if err := s.checkFolders(key); err != nil {
		return nil, 0, err
	}
	before, err := s.lstatObject(key)
	if err != nil {
		return nil, 0, err
	}
	if f, err = s.root.Open(key); err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(before, info) {
		err = errNotObject // it was replaced between the two, which no Store does
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// A reader reads a range of an object that has the bytes.
type reader struct {
	ctx       context.Context
	key       string
	file      *os.File
	off, left int64
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, failure("get", r.key, err)
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.file.ReadAt(p[:min(int64(len(p)), r.left)], r.off)
	r.off += int64(n)
	r.left -= int64(n)
	switch {
	case err == nil || r.left == 0:
		return n, nil
	case err == io.EOF:
		err = io.ErrUnexpectedEOF // somebody made the file shorter
	}
	return n, failure("get", r.key, err)
}

func (r *reader) Close() error {
	if err := r.file.Close(); err != nil {
		return failure("get", r.key, err)
	}
	return nil
}

// Delete removes the object. See [claimcheck.PrunableStore].
func (s *Store) Delete(ctx context.Context, key string) error {
	const op = "delete"
	if err := check(ctx, op, key); err != nil {
		return err
	}
	err := s.checkFolders(key)
	if err == nil {
		_, err = s.lstatObject(key)
	}
	if err == nil {
		err = s.root.Remove(key)
	}
	if err = s.missing(err); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failure(op, key, err)
	}
	return nil
}

// check refuses a key that is none and a context that is done.
func check(ctx context.Context, op, key string) error {
	if _, err := claimcheck.ParseKey(key); err != nil {
		return &claimcheck.Error{Code: claimcheck.CodeInvalidRef, Op: op, Key: key, Err: errors.Unwrap(err)}
	}
	if err := ctx.Err(); err != nil {
		return failure(op, key, err)
	}
	return nil
}

// failure returns the error of an operation that failed with err. To a Get, a file that is not
// there is an object that is not there, unless missing said otherwise.
func failure(op, key string, err error) error {
	e := &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: op, Key: key, Err: err}
	var source *sourceError
	switch {
	case errors.As(err, &source):
	case errors.Is(err, fs.ErrNotExist) && op == "get":
		e.Code = claimcheck.CodeNotFound
	case errors.Is(err, fs.ErrPermission):
		e.Code = claimcheck.CodeForbidden
	}
	return e
}

var (
	errNotObject = errors.New("not a regular file")
	errNotFolder = errors.New("not a folder")
	errGone      = errors.New("the folder of the store is gone")
	errFolds     = errors.New("the file system does not tell this tenant from one that differs in upper and lower case")
)

// missing returns err, which is about an object or a folder below claims, or errGone when
// nothing is there at all: a disk that was taken away must not look like one without objects.
func (s *Store) missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if _, claims := s.root.Lstat(claimsName); errors.Is(claims, fs.ErrNotExist) {
			return errGone
		} else if claims != nil {
			return claims
		}
	}
	return err
}

// checkFolders checks that the folders of a key are nothing but folders.
func (s *Store) checkFolders(key string) error {
	day := path.Dir(key)
	tenant := path.Dir(day)
	for _, name := range []string{claimsName, tenant, day} {
		if err := s.checkFolder(name); err != nil {
			return err
		}
	}
	if s.folds {
		return s.checkCase(tenant)
	}
	return nil
}

func (s *Store) checkFolder(name string) error {
	info, err := s.root.Lstat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "open", Path: name, Err: errNotFolder}
	}
	return nil
}

// checkCase checks that a tenant's folder has the very name, and not only one that the file
// system takes for the same.
func (s *Store) checkCase(tenant string) error {
	names, err := s.readFolder(claimsName)
	if err != nil {
		return err
	}
	for _, entry := range names {
		if entry.Name() == path.Base(tenant) {
			return nil
		}
	}
	return &fs.PathError{Op: "open", Path: tenant, Err: fs.ErrNotExist}
}

func (s *Store) lstatObject(key string) (fs.FileInfo, error) {
	info, err := s.root.Lstat(key)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: key, Err: errNotObject}
	}
	return info, err
}

func (s *Store) readFolder(name string) ([]fs.DirEntry, error) {
	f, err := s.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}
