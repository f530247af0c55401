//go:build !linux

package filestore_test

import "errors"

func crash([]string) error { return errors.New("only Linux can be asked for the calls of a thread") }
