package sqldialect

import (
	"slices"
	"strconv"
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

// IsDuplicate reports whether err, an error of a driver somewhere in its tree, says that a unique
// value is there already.
func (d Dialect) IsDuplicate(err error) bool {
	switch code := d.Refusal(err); d {
	case PostgreSQL:
		return code == "23505"
	case MySQL:
		return code == "1062"
	case SQLite:
		return code == "2067" || code == "1555" || code == "UNIQUE constraint failed"
	}
	return false
}

// Refusal returns the database's code of an error of a driver, somewhere in the tree of err, which
// says that the values of a statement break a rule of the table or of their type, so that the same
// statement fails again; or "".
func (d Dialect) Refusal(err error) string {
	for err != nil {
		if code := d.refusal(err); code != "" {
			return code
		}
		switch x := err.(type) {
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range x.Unwrap() {
				if code := d.Refusal(e); code != "" {
					return code
				}
			}
			return ""
		default:
			return ""
		}
	}
	return ""
}

func (d Dialect) refusal(err error) string {
	switch d {
	case PostgreSQL:
		if e, ok := err.(interface{ SQLState() string }); ok {
			// data_exception, integrity_constraint_violation
			if state := e.SQLState(); strings.HasPrefix(state, "22") || strings.HasPrefix(state, "23") {
				return state
			}
		}
	case MySQL:
		switch number := mysqlNumber(err.Error()); number {
		// No null, a duplicate, out of range, truncated, no time, no text, too long, a foreign
		// key, no JSON, JSON too deep or with a wrong character set, a CHECK of MySQL and of
		// MariaDB, MariaDB's limit of depth.
		case "1048", "1062", "1264", "1265", "1292", "1366", "1406", "1452", "3140", "3144", "3157", "3819", "4025", "4038":
			return number
		}
	case SQLite:
		if e, ok := err.(interface{ Code() int }); ok {
			switch code := e.Code(); code & 0xff {
			case 18, 19, 20: // too big, constraint, mismatch
				return strconv.Itoa(code)
			}
			return ""
		}
		if what, _, ok := strings.Cut(err.Error(), " constraint failed"); ok && !strings.Contains(what, " ") {
			return what + " constraint failed"
		}
	}
	return ""
}
