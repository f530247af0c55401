package filestore

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"strings"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// errStopped ends a walk whose caller has stopped.
var errStopped = errors.New("stopped")

// List returns the keys that begin with prefix. It reads one folder at a time, and only those
// that the prefix leads to. See [claimcheck.PrunableStore].
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		err := s.walk(ctx, prefix, func(day string, undated bool) error {
			if undated {
				return nil
			}
			return s.eachEntry(ctx, day, func(name string, entry fs.DirEntry) error {
				_, err := claimcheck.ParseKey(name)
				if err == nil && entry.Type().IsRegular() && strings.HasPrefix(name, prefix) && !yield(name, nil) {
					return errStopped
				}
				return nil
			})
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield("", failure("list", prefix, s.missing(err)))
		}
	}
}

// walk calls f with the path of every folder of a day that a prefix leads to, and of
// everything else that is where such a folder, or a tenant's, should be.
func (s *Store) walk(ctx context.Context, prefix string, f func(name string, undated bool) error) error {
	leads := func(folder string) bool {
		return strings.HasPrefix(folder+"/", prefix) || strings.HasPrefix(prefix, folder+"/")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.checkFolder(claimsName); err != nil {
		return s.missing(err)
	}
	if !leads(claimsName) {
		return nil
	}
	err := s.eachEntry(ctx, claimsName, func(tenant string, entry fs.DirEntry) error {
		if !leads(tenant) {
			return nil
		}
		if name, ok := strings.CutPrefix(entry.Name(), "tenant="); !ok || !claimcheck.ValidTenant(name) || !entry.IsDir() {
			return f(tenant, true)
		}
		return s.eachEntry(ctx, tenant, func(day string, entry fs.DirEntry) error {
			if !leads(day) {
				return nil
			}
			_, ok := date(entry.Name())
			return f(day, !ok || !entry.IsDir())
		})
	})
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// eachEntry calls f with the path of everything in a folder. The folder is read before, so
// that f may delete. One that is not there any more has nothing in it.
func (s *Store) eachEntry(ctx context.Context, folder string, f func(name string, entry fs.DirEntry) error) error {
	entries, err := s.readFolder(folder)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(path.Join(folder, entry.Name()), entry); err != nil {
			return err
		}
	}
	return nil
}

// date returns the date of a folder's name, one that a key can have: none is before 1970.
func date(name string) (time.Time, bool) {
	text, ok := strings.CutPrefix(name, "dt=")
	if !ok {
		return time.Time{}, false
	}
	t, err := time.Parse(time.DateOnly, text)
	return t, err == nil && t.Year() >= 1970
}

// Days returns the folders of days, and what is in their place. See [claimcheck.DayStore].
func (s *Store) Days(ctx context.Context) iter.Seq2[claimcheck.Day, error] {
	return func(yield func(claimcheck.Day, error) bool) {
		err := s.walk(ctx, "", func(name string, undated bool) error {
			day := claimcheck.Day{Path: name}
			if !undated {
				day.Date, _ = date(path.Base(name))
				day.Tenant = strings.TrimPrefix(path.Base(path.Dir(name)), "tenant=")
			}
			if !yield(day, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(claimcheck.Day{}, failure("list", "", s.missing(err)))
		}
	}
}

// DeleteDay removes the folder of a day with all that is in it. See [claimcheck.DayStore].
func (s *Store) DeleteDay(ctx context.Context, day claimcheck.Day) (objects int, err error) {
	const op = "delete"
	name := "claims/tenant=" + day.Tenant + "/dt=" + day.Date.Format(time.DateOnly)
	if _, ok := date(path.Base(name)); !ok || day.Path != name || !claimcheck.ValidTenant(day.Tenant) {
		return 0, &claimcheck.Error{Code: claimcheck.CodeInvalidRef, Op: op, Key: day.Path, Err: errors.New("not a day of a tenant")}
	}
	if err := ctx.Err(); err != nil {
		return 0, failure(op, name, err)
	}
	err = s.checkFolders(name + "/x")
	if err == nil {
		objects, err = s.deleteFolder(ctx, name)
		s.forget(name)
	}
	if err = s.missing(err); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return objects, failure(op, name, err)
	}
	return objects, nil
}

func (s *Store) deleteFolder(ctx context.Context, name string) (objects int, err error) {
	err = s.eachEntry(ctx, name, func(name string, _ fs.DirEntry) error {
		if err := s.root.RemoveAll(name); err != nil {
			return err
		}
		objects++
		return nil
	})
	if err != nil {
		return objects, err
	}
	// Not with RemoveAll: what was put meanwhile stays, until the next sweep.
	if err := s.root.Remove(name); err != nil {
		return objects, err
	}
	return objects, syncFolder(s.root.Open(path.Dir(name)))
}

// DeleteLeftovers removes what crashes have left in .incoming: a Put writes to its file until
// it is done. See [claimcheck.DayStore].
func (s *Store) DeleteLeftovers(ctx context.Context, before time.Time) (files int, err error) {
	const op = "delete"
	if err := ctx.Err(); err != nil {
		return 0, failure(op, incomingName, err)
	}
	err = s.checkFolder(incomingName)
	if err == nil {
		err = s.eachEntry(ctx, incomingName, func(name string, entry fs.DirEntry) error {
			info, err := entry.Info()
			if err != nil || !info.Mode().IsRegular() || !info.ModTime().Before(before) {
				return nil //nolint:nilerr // it is gone, or none of ours
			}
			if err := s.root.Remove(name); err != nil {
				return err
			}
			files++
			return nil
		})
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return files, failure(op, incomingName, err)
	}
	return files, nil
}
