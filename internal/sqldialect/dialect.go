// Package sqldialect is how the databases differ that we keep tables in: placeholders, quoting,
// the binding of UUIDs, the time by the database's clock, inserts of what is not there yet, and
// which errors say that a transaction is to be run again. It knows no driver.
package sqldialect

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// A Dialect is a kind of database. The zero Dialect is invalid.
type Dialect int

// The databases that are supported. What is called here MySQL is MariaDB as well.
const (
	PostgreSQL Dialect = iota + 1
	MySQL
	SQLite
)

// String returns the database's name.
func (d Dialect) String() string {
	switch d {
	case PostgreSQL:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	}
	return "Dialect(" + strconv.Itoa(int(d)) + ")"
}

// Validate returns an error unless d is one of the constants of this package.
func (d Dialect) Validate() error {
	switch d {
	case PostgreSQL, MySQL, SQLite:
		return nil
	case 0:
		return errors.New("a dialect is required: PostgreSQL, MySQL or SQLite")
	}
	return fmt.Errorf("no such dialect: %d", int(d))
}

// CheckIdentifier returns an error unless name is 1 to limit bytes of ASCII letters, digits and
// underscores, the first not a digit. What passes needs no escapes in any dialect.
func CheckIdentifier(name string, limit int) error {
	if name == "" {
		return errors.New("an identifier is required")
	}
	if len(name) > limit {
		return fmt.Errorf("identifier of %d bytes, at most %d", len(name), limit)
	}
	for i, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_', i > 0 && '0' <= c && c <= '9':
		default:
			return fmt.Errorf("identifier %q is not letters, digits and underscores, the first not a digit", name)
		}
	}
	return nil
}

// Quote returns an identifier that passed [CheckIdentifier] in the dialect's quotes, in which
// letters keep their case and reserved words are names.
func (d Dialect) Quote(name string) string {
	if d == MySQL {
		return "`" + name + "`"
	}
	return `"` + name + `"`
}

// Placeholder returns the placeholder of a statement's argument n, which counts from 1.
func (d Dialect) Placeholder(n int) string {
	if d == PostgreSQL {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// Placeholders returns the placeholders of count arguments from first on, with commas between
// them: what a list of values or the parentheses of IN hold.
func (d Dialect) Placeholders(first, count int) string {
	var b strings.Builder
	for n := range count {
		if n > 0 {
			b.WriteString(", ")
		}
		b.WriteString(d.Placeholder(first + n))
	}
	return b.String()
}

// UUID returns the argument that id is bound as: its text for PostgreSQL's own type, and its 16
// bytes for BINARY(16) of MySQL and BLOB of SQLite, which do not find a row by any other form.
// What is read of such columns [uuid.UUID] and [uuid.NullUUID] scan in every dialect.
func (d Dialect) UUID(id uuid.UUID) any {
	if d == PostgreSQL {
		return id.String()
	}
	return id[:]
}

// InsertIfAbsent returns an INSERT of one row of a placeholder per column, which affects one row,
// or none when the value of the first column, which is unique, is there already. Its arguments
// are those of [Dialect.IfAbsent]. table and columns are identifiers, not quoted yet.
//
// While another transaction inserts the same value it waits for the end of that transaction;
// MySQL then may fail with a duplicate key or a deadlock, for which see [Dialect.IsConflict].
// For MySQL it is an INSERT of a SELECT. IGNORE would take a value that does not fit for one
// that is there, and the count of ON DUPLICATE KEY depends on how the client connected.
func (d Dialect) InsertIfAbsent(table string, columns ...string) string {
	quoted := make([]string, len(columns))
	for i, column := range columns {
		quoted[i] = d.Quote(column)
	}
	into := "INSERT INTO " + d.Quote(table) + " (" + strings.Join(quoted, ", ") + ") "
	values := d.Placeholders(1, len(columns))
	if d == MySQL {
		return into + "SELECT " + values + " FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM " +
			d.Quote(table) + " WHERE " + quoted[0] + " = ?)"
	}
	return into + "VALUES (" + values + ") ON CONFLICT (" + quoted[0] + ") DO NOTHING"
}

// IfAbsent returns the arguments of [Dialect.InsertIfAbsent] for the values of its columns, of
// which MySQL is given the first once more.
func (d Dialect) IfAbsent(values ...any) []any {
	if d == MySQL {
		return append(slices.Clip(values), values[0])
	}
	return values
}

// SkipLocked returns the end of a SELECT that locks the rows that it returns, but for those that
// another transaction has locked, with a space in front. SQLite, which locks the database, has
// none.
func (d Dialect) SkipLocked() string {
	if d == SQLite {
		return ""
	}
	return " FOR UPDATE SKIP LOCKED"
}
