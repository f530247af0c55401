// Package sqlinbox remembers which messages were handled in a table of the user's own database,
// and writes that in the transaction in which the handler writes its data. Either both are
// there or neither is, whenever the process ends: a message that is delivered again takes
// effect exactly once.
//
// It works with every driver of database/sql for PostgreSQL, MySQL, MariaDB and SQLite.
package sqlinbox

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/inbox"
	"github.com/watermill-envelope/envelope/internal/sqldialect"
)

// A Dialect is a kind of database. The zero Dialect is invalid.
type Dialect = sqldialect.Dialect

// The databases that are supported. What is called here MySQL is MariaDB as well.
const (
	PostgreSQL = sqldialect.PostgreSQL
	MySQL      = sqldialect.MySQL
	SQLite     = sqldialect.SQLite
)

// DefaultTable is the name of the table unless set.
const DefaultTable = "envelope_inbox"

// A Config says where the keys are kept. DB and Dialect are required.
type Config struct {
	DB      *sql.DB
	Dialect Dialect
	// Table is the name of the table, [DefaultTable] unless set: at most 52 bytes of letters,
	// digits and underscores, the first not a digit. It has no schema; that is a matter of the
	// connection (search_path). [Inbox.Schema] prints what makes it.
	Table string
	// TxOptions are those of the transactions. The zero value has the database's own level of
	// isolation; every level will do for the keys.
	TxOptions sql.TxOptions
}

// maxTable is what leaves room in PostgreSQL's 63 bytes for the name of the index.
const maxTable = 63 - len(indexSuffix)

// Validate reports everything that is wrong with c. It does not ask the database, which
// [Inbox.Check] does.
func (c Config) Validate() error {
	var errs []error
	if c.DB == nil {
		errs = append(errs, errors.New("sqlinbox: no DB"))
	}
	if err := c.Dialect.Validate(); err != nil {
		errs = append(errs, errors.New("sqlinbox: Dialect: "+err.Error()))
	}
	if c.Table != "" {
		if err := sqldialect.CheckIdentifier(c.Table, maxTable); err != nil {
			errs = append(errs, errors.New("sqlinbox: Table: "+err.Error()))
		}
	}
	if c.TxOptions.ReadOnly {
		errs = append(errs, errors.New("sqlinbox: TxOptions are read-only"))
	}
	return errors.Join(errs...)
}

// An Inbox is an [inbox.Seen] in a table. Any number of goroutines and processes may share the
// table.
type Inbox struct {
	config Config
	insert string
}

var _ inbox.Seen = (*Inbox)(nil)

// New returns an Inbox. It does not ask the database.
func New(c Config) (*Inbox, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Table == "" {
		c.Table = DefaultTable
	}
	i := &Inbox{config: c}
	i.insert = i.insertStatement()
	return i, nil
}

type txKey struct{}

// Tx returns the transaction of the handler whose context this is: what is written in it is
// there if and only if the message counts as handled. The handler neither commits it nor rolls
// it back, and returns the error of every statement that failed.
func Tx(ctx context.Context) (*sql.Tx, bool) {
	tx, ok := ctx.Value(txKey{}).(*sql.Tx)
	return tx, ok
}

// Once runs fn in a transaction, which [Tx] finds in fn's context, and in which the key is
// written first. See [inbox.Seen].
//
// It commits when fn returns nil, and rolls back when fn fails, panics or ends its goroutine.
// What was done elsewhere, a message that fn published, is not undone.
//
// While another transaction that wrote the key is open, the database lets this one wait: for as
// long as ctx lasts, or until the database's own limit for locks, and meanwhile the connection
// is taken.
//
// An [*inbox.Error] means that nothing was done, except after an error of the commit: whether
// that was done is then not known, and the next call of Once, which finds the key or does not,
// is right in either case. An error of fn's that is of a driver and says that the transaction
// stood in the way of another one is in an [*inbox.Error] too, with [inbox.CodeConflict], unless
// fn has marked it as permanent.
func (i *Inbox) Once(ctx context.Context, key string, fn func(ctx context.Context) error) (first bool, err error) {
	tx, err := i.config.DB.BeginTx(ctx, &i.config.TxOptions)
	if err != nil {
		return false, i.failure("begin", key, err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	added, err := i.add(ctx, tx, key)
	if err != nil {
		return false, i.failure("claim", key, err)
	}
	if !added {
		return false, nil
	}
	if err := fn(context.WithValue(ctx, txKey{}, tx)); err != nil {
		if i.config.Dialect.IsConflict(err) && !envelope.IsPermanent(err) {
			err = &inbox.Error{Code: inbox.CodeConflict, Op: "handle", Key: key, Err: err}
		}
		return false, err
	}
	if err := tx.Commit(); err != nil {
		if isHandlers(err) && ctx.Err() == nil {
			return false, &commitError{err}
		}
		return false, i.failure("commit", key, err)
	}
	return true, nil
}

// add writes the key, unless it is there.
func (i *Inbox) add(ctx context.Context, tx *sql.Tx, key string) (bool, error) {
	result, err := tx.ExecContext(ctx, i.insert, i.stored(key))
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// failure is an error of the database.
func (i *Inbox) failure(op, key string, err error) error {
	code := inbox.CodeUnavailable
	if i.config.Dialect.IsConflict(err) {
		code = inbox.CodeConflict
	}
	return &inbox.Error{Code: code, Op: op, Key: key, Err: err}
}

// A commitError is the error of a commit that is the handler's fault: it would fail again. It
// has no class, like every other error of a handler.
type commitError struct{ err error }

func (e *commitError) Error() string {
	return "sqlinbox: commit: " + e.err.Error() +
		" (the handler has ended the transaction, or has returned nil after a statement failed)"
}

func (e *commitError) Unwrap() error { return e.err }

// isHandlers reports whether a commit failed because the handler ended the transaction, or
// because a statement of it failed and the handler did not say so: PostgreSQL rolls back then,
// which pgx and lib/pq report in these words.
func isHandlers(err error) bool {
	return errors.Is(err, sql.ErrTxDone) ||
		strings.Contains(err.Error(), "commit unexpectedly resulted in rollback") ||
		strings.Contains(err.Error(), "Could not complete operation in a failed transaction")
}

const (
	maxKey       = 255
	digestPrefix = "sha256:"
)

// stored returns the argument for a key: the key where every database holds it as it is, else
// its digest.
func (i *Inbox) stored(key string) any {
	if len(key) > maxKey || !utf8.ValidString(key) || strings.Contains(key, "\x00") || strings.HasPrefix(key, digestPrefix) {
		sum := sha256.Sum256([]byte(key))
		key = digestPrefix + hex.EncodeToString(sum[:])
	}
	if i.config.Dialect == MySQL {
		return []byte(key) // of a text the connection's character set would be asked
	}
	return key
}
