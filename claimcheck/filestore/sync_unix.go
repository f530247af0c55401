//go:build !windows

package filestore

import (
	"errors"
	"os"
	"syscall"
)

// syncFolder makes the entries of a folder durable, and closes it. It takes the results of
// Open. File systems that cannot do it for folders say so with EINVAL or ENOTSUP; there is
// nothing more to do then.
func syncFolder(f *os.File, err error) error {
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
