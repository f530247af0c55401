package sqlinbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/watermill-envelope/envelope/internal/sqldialect"
)

const (
	keyColumn   = "message_key"
	timeColumn  = "handled_at"
	indexSuffix = "_" + timeColumn
)

// Schema returns the statements that make the table and its index, unless they are there, each
// with a semicolon and a line's end behind it: for a migration, or for [Inbox.Apply].
//
// message_key is the key, or "sha256:" and the digest in lower-case hex of one over 255 bytes or
// with bytes that are not text. handled_at is when it was written, by the database's clock.
func (i *Inbox) Schema() string {
	return strings.Join(i.statements(), ";\n") + ";\n"
}

func (i *Inbox) statements() []string {
	d := i.config.Dialect
	table, index := d.Quote(i.config.Table), d.Quote(i.config.Table+indexSuffix)
	key, handled := d.Quote(keyColumn), d.Quote(timeColumn)
	time := " " + d.TimeType() + " NOT NULL DEFAULT (" + d.Now() + ")"
	if d == MySQL {
		// Bytes, which differ when they differ in case or in spaces at the end. An engine
		// without transactions would keep the key of a handler that failed.
		return []string{"CREATE TABLE IF NOT EXISTS " + table + " (\n" +
			"  " + key + " VARBINARY(255) NOT NULL PRIMARY KEY,\n" +
			"  " + handled + time + ",\n" +
			"  KEY " + index + " (" + handled + ")\n" +
			") ENGINE=InnoDB"}
	}
	text := " TEXT"
	if d == PostgreSQL {
		text = ` TEXT COLLATE "C"` // by bytes
	}
	return []string{
		"CREATE TABLE IF NOT EXISTS " + table + " (\n" +
			"  " + key + text + " NOT NULL PRIMARY KEY,\n" +
			"  " + handled + time + "\n)",
		"CREATE INDEX IF NOT EXISTS " + index + " ON " + table + " (" + handled + ")",
	}
}

// Apply runs [Inbox.Schema]. What is there already it leaves as it is, whatever it is: see
// [Inbox.Check]. Two that run it at once on PostgreSQL may fail, and succeed when they try again.
func (i *Inbox) Apply(ctx context.Context) error {
	for _, statement := range i.statements() {
		if _, err := i.config.DB.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("sqlinbox: apply %s: %w", i.config.Table, err)
		}
	}
	return nil
}

var (
	errNotUnique      = errors.New("it takes the same key twice")
	errNoClock        = errors.New("handled_at is not set to the time of the database's clock")
	errNoTransactions = errors.New("it keeps what was rolled back: its engine has no transactions")
)

// Check reports whether the table is fit for use, with the rights of this connection: it writes
// and finds a key in a transaction, which it rolls back. The time that it takes is that of a few
// statements.
func (i *Inbox) Check(ctx context.Context) error {
	if err := i.check(ctx, "check:"+rand.Text()); err != nil {
		return fmt.Errorf("sqlinbox: check %s: %w", i.config.Table, err)
	}
	return nil
}

func (i *Inbox) check(ctx context.Context, key string) error {
	tx, err := i.config.DB.BeginTx(ctx, &i.config.TxOptions)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the one below
	for _, want := range [...]bool{true, false} {
		added, err := i.add(ctx, tx, key)
		if err != nil {
			return err
		}
		if added != want {
			return errNotUnique
		}
	}
	recent, err := i.count(ctx, tx, " AND "+i.config.Dialect.Quote(timeColumn)+" <= "+
		i.config.Dialect.NowPlus(i.config.Dialect.Placeholder(2))+" AND "+i.config.Dialect.Quote(timeColumn)+" >= "+
		i.config.Dialect.NowPlus(i.config.Dialect.Placeholder(3)),
		i.stored(key), i.config.Dialect.Interval(time.Minute), i.config.Dialect.Interval(-time.Hour))
	if err != nil {
		return err
	}
	if recent != 1 {
		return errNoClock
	}
	if err := tx.Rollback(); err != nil {
		return err
	}
	left, err := i.count(ctx, i.config.DB, "", i.stored(key))
	if err != nil {
		return err
	}
	if left != 0 {
		return errNoTransactions
	}
	return nil
}

// count returns how many rows there are with the key that is the first argument.
func (i *Inbox) count(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, where string, args ...any,
) (n int, err error) {
	d := i.config.Dialect
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM "+d.Quote(i.config.Table)+
		" WHERE "+d.Quote(keyColumn)+" = "+d.Placeholder(1)+where, args...).Scan(&n)
	return n, err
}

// insertStatement is the one that writes a key, unless it is there. MySQL has the one form that
// neither locks keys that are not there, which would be a deadlock between messages that have
// nothing to do with each other, nor counts by how the client connected. What IGNORE is known for
// cannot happen: the key fits, and the rest is the table's default.
func (i *Inbox) insertStatement() string {
	d := i.config.Dialect
	if d == MySQL {
		return "INSERT IGNORE INTO " + d.Quote(i.config.Table) + " (" + d.Quote(keyColumn) + ") VALUES (?)"
	}
	return d.InsertIfAbsent(i.config.Table, keyColumn)
}

// Prune deletes the keys that were written longer ago than olderThan, by the database's clock,
// and returns how many. Each of its statements deletes batch keys at most and commits by itself,
// so that none holds locks for long.
//
// olderThan has to be longer than a message can come again after: the retention of its topic or
// queue, and of the poison topic that it may be sent again from. A key that is gone is a new one.
func (i *Inbox) Prune(ctx context.Context, olderThan time.Duration, batch int) (deleted int64, err error) {
	if olderThan <= 0 || batch <= 0 {
		return 0, fmt.Errorf("sqlinbox: prune: keys older than %v in batches of %d, want both over 0", olderThan, batch)
	}
	statement := i.pruneStatement()
	for {
		result, err := i.config.DB.ExecContext(ctx, statement, i.config.Dialect.Interval(-olderThan), batch)
		if err != nil {
			return deleted, i.failure("prune", "", err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return deleted, i.failure("prune", "", err)
		}
		deleted += n
		if n < int64(batch) {
			return deleted, nil
		}
	}
}

func (i *Inbox) pruneStatement() string {
	d := i.config.Dialect
	table, key, handled := d.Quote(i.config.Table), d.Quote(keyColumn), d.Quote(timeColumn)
	old := " WHERE " + handled + " < " + d.NowPlus(d.Placeholder(1)) + " ORDER BY " + handled + " LIMIT " + d.Placeholder(2)
	if d == sqldialect.MySQL {
		return "DELETE FROM " + table + old
	}
	return "DELETE FROM " + table + " WHERE " + key + " IN (SELECT " + key + " FROM " + table + old + d.SkipLocked() + ")"
}
