package main

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/watermill-envelope/envelope/inbox/sqlinbox"
	"github.com/watermill-envelope/envelope/outbox"
)

// A database has the shop's tables, those of the outbox, and that of the inbox.
type database struct {
	*sql.DB
	dialect outbox.Dialect
	outbox  *outbox.Outbox
	inbox   *sqlinbox.Inbox
}

// open connects to a database and makes what is missing in it.
func open(ctx context.Context, dsn string) (_ *database, err error) {
	d := &database{}
	switch {
	case strings.HasPrefix(dsn, "postgres://"), strings.HasPrefix(dsn, "postgresql://"):
		d.dialect, d.DB, err = driver(outbox.PostgreSQL, "pgx", dsn)
	case strings.Contains(dsn, "@tcp("), strings.Contains(dsn, "@unix("):
		d.dialect, d.DB, err = driver(outbox.MySQL, "mysql", dsn)
	default:
		// Writers wait for each other, and a transaction that will write begins as one that does.
		d.dialect, d.DB, err = driver(outbox.SQLite, "sqlite", "file:"+dsn+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	}
	if err != nil {
		return nil, errors.New("-dsn is not the address of a database") // err may hold a password
	}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if d.outbox, err = outbox.New(outbox.Config{Dialect: d.dialect, Table: "example_outbox"}); err != nil {
		return nil, err
	}
	if d.inbox, err = sqlinbox.New(sqlinbox.Config{DB: d.DB, Dialect: d.dialect, Table: "example_inbox"}); err != nil {
		return nil, err
	}
	for _, table := range []string{
		"CREATE TABLE IF NOT EXISTS example_orders (number VARCHAR(64) NOT NULL PRIMARY KEY, cents BIGINT NOT NULL)",
		// Nothing in this table forbids a second invoice for an order.
		"CREATE TABLE IF NOT EXISTS example_invoices (number VARCHAR(64) NOT NULL, cents BIGINT NOT NULL)",
	} {
		if _, err = d.ExecContext(ctx, table); err != nil {
			return nil, err
		}
	}
	return d, errors.Join(d.outbox.Apply(ctx, d.DB), d.inbox.Apply(ctx))
}

func driver(dialect outbox.Dialect, name, dsn string) (outbox.Dialect, *sql.DB, error) {
	db, err := sql.Open(name, dsn)
	return dialect, db, err
}

// place writes an order and its event, both or neither. It reports whether the order is new: a
// client that has had no answer asks again.
func (d *database) place(ctx context.Context, o OrderPlaced) (placed bool, err error) {
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // unless it was committed
	var there int
	if err := tx.QueryRowContext(ctx, d.text("SELECT count(*) FROM example_orders WHERE number = ?"), o.Order).Scan(&there); err != nil || there > 0 {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, d.text("INSERT INTO example_orders (number, cents) VALUES (?, ?)"), o.Order, o.Cents); err != nil {
		return false, err
	}
	if _, err := d.outbox.PublishInTx(ctx, tx, o); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

// bill writes an invoice, in the transaction in which the inbox writes that the order was billed.
func (d *database) bill(ctx context.Context, o OrderPlaced) error {
	tx, ok := sqlinbox.Tx(ctx)
	if !ok {
		return errors.New("billing outside of the inbox")
	}
	_, err := tx.ExecContext(ctx, d.text("INSERT INTO example_invoices (number, cents) VALUES (?, ?)"), o.Order, o.Cents)
	return err
}

// text returns a statement with the placeholders of the database.
func (d *database) text(statement string) string {
	if d.dialect != outbox.PostgreSQL {
		return statement
	}
	var b strings.Builder
	for n, part := range strings.Split(statement, "?") {
		if n > 0 {
			b.WriteString("$" + strconv.Itoa(n))
		}
		b.WriteString(part)
	}
	return b.String()
}
