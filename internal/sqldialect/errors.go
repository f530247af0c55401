package sqldialect

import (
	"slices"
	"strings"
)

// IsConflict reports whether err, an error of a driver somewhere in its tree, says that the
// transaction stood in the way of another one and may succeed when it is run again from its
// begin: a serialization failure, a deadlock, a lock that was not granted in time, or a busy
// database.
//
// Drivers are known by what they have in common: for PostgreSQL a method SQLState, for MySQL a
// text that begins with "Error" and the number, for SQLite a method Code or the text of the
// result code.
func (d Dialect) IsConflict(err error) bool {
	for err != nil {
		if d.isConflict(err) {
			return true
		}
		switch x := err.(type) {
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			return slices.ContainsFunc(x.Unwrap(), d.IsConflict)
		default:
			return false
		}
	}
	return false
}

func (d Dialect) isConflict(err error) bool {
	switch d {
	case PostgreSQL:
		if e, ok := err.(interface{ SQLState() string }); ok {
			switch e.SQLState() {
			case "40001", "40P01", "55P03": // serialization_failure, deadlock_detected, lock_not_available
				return true
			}
		}
	case MySQL:
		switch mysqlNumber(err.Error()) {
		// Record changed since last read, lock wait timeout, deadlock, NOWAIT.
		case "1020", "1205", "1213", "3572":
			return true
		}
	case SQLite:
		if e, ok := err.(interface{ Code() int }); ok {
			return isBusy(e.Code())
		}
		return strings.HasPrefix(err.Error(), "database is locked") || strings.HasPrefix(err.Error(), "database table is locked")
	}
	return false
}

// isBusy reports whether an extended result code of SQLite is of SQLITE_BUSY or SQLITE_LOCKED.
func isBusy(code int) bool { return code&0xff == 5 || code&0xff == 6 }

// mysqlNumber returns the number in "Error 1213 (40001): ..." and "Error 1213: ...".
func mysqlNumber(text string) string {
	rest, ok := strings.CutPrefix(text, "Error ")
	if !ok {
		return ""
	}
	end := strings.IndexAny(rest, " :")
	if end < 0 {
		return ""
	}
	return rest[:end]
}
