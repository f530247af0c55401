//go:build !linux

package filestore_test

import "github.com/watermill-envelope/envelope/claimcheck"

// ordinary returns s: only on Linux can one be root and not have root's rights.
func ordinary(s claimcheck.DayStore) claimcheck.PrunableStore { return s }
