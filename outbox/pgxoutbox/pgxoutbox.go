// Package pgxoutbox publishes into an outbox through pgx, without database/sql, and waits for the
// notifications that wake a relay.
//
//	tx, err := pool.Begin(ctx)
//	...
//	id, err := pgxoutbox.PublishInTx(ctx, ob, tx, OrderPlaced{ID: "o-1"})
//	err = tx.Commit(ctx)
//
// Workers and relays are those of package outbox, on database/sql: pgx has it in its package
// stdlib, which also makes a *sql.DB of a pool.
package pgxoutbox

import (
	"context"
	"database/sql"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/watermill-envelope/envelope/outbox"
)

// An Execer is what an INSERT runs on: a pgx.Tx, a *pgxpool.Pool, a *pgxpool.Conn or a *pgx.Conn.
type Execer interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
}

// PublishInTx is [outbox.Outbox.PublishInTx].
func PublishInTx(ctx context.Context, o *outbox.Outbox, tx Execer, e outbox.Event) (uuid.UUID, error) {
	return o.PublishInTx(ctx, adapter{tx}, e)
}

// PublishInTxWithSubject is [outbox.Outbox.PublishInTxWithSubject].
func PublishInTxWithSubject(ctx context.Context, o *outbox.Outbox, tx Execer, subjectID uuid.UUID, e outbox.Event) (uuid.UUID, error) {
	return o.PublishInTxWithSubject(ctx, adapter{tx}, subjectID, e)
}

// Publish is [outbox.Outbox.Publish], on a pool or a connection.
func Publish(ctx context.Context, o *outbox.Outbox, pool Execer, e outbox.Event) (uuid.UUID, error) {
	return o.PublishInTx(ctx, adapter{pool}, e)
}

// EnqueueIdempotent is [outbox.Outbox.EnqueueIdempotent].
func EnqueueIdempotent(ctx context.Context, o *outbox.Outbox, on Execer, eventID uuid.UUID, eventType string, payload []byte) (bool, error) {
	return o.EnqueueIdempotent(ctx, adapter{on}, eventID, eventType, payload)
}

// An adapter is an Execer of database/sql.
type adapter struct{ on Execer }

func (a adapter) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tag, err := a.on.Exec(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return result(tag.RowsAffected()), nil
}

// A result is a number of rows.
type result int64

func (r result) RowsAffected() (int64, error) { return int64(r), nil }

// LastInsertId is not what PostgreSQL has.
func (r result) LastInsertId() (int64, error) { return 0, sql.ErrNoRows }
