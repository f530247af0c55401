// Package outbox writes typed events into a table of the user's own database, in the transaction
// that writes the data they are about, and delivers them from there: to handlers of a Watermill
// router, or to any Watermill publisher. Either the data and the event are both there or neither
// is, and an event that is there is delivered at least once.
//
// The table is that of Hexeract's outbox: Rust services read what Go writes and the other way
// round, on PostgreSQL, MySQL, MariaDB and SQLite, with every driver of database/sql. Package
// outbox/pgxoutbox publishes through pgx without database/sql.
//
//	ob, err := outbox.New(outbox.Config{Dialect: outbox.PostgreSQL})
//	...
//	tx, err := db.BeginTx(ctx, nil)
//	... // the order
//	id, err := ob.PublishInTx(ctx, tx, OrderPlaced{ID: "o-1"})
//	err = tx.Commit()
//
// An [Event] is a Go type with a stable name. An [Envelope] is one event with what its row says of
// it. [Decode] reads an event from it.
//
// # The tables
//
// [Outbox.Schema] prints the statements that make the two tables, [Outbox.Apply] runs them and
// [Outbox.Check] tells everything that is wrong with the tables of a database: columns, types,
// indexes, and rows that were written in an encoding that a reader does not take.
//
// A row's state is in three columns. It is delivered when delivered_at is set. It is due when its
// attempts are below the most that workers make and next_retry_at is not set or has passed. A
// worker that takes a row sets next_retry_at to the end of its lease and counts the attempt, so
// that a row whose worker has died is due again by itself. A row that has failed as often as
// workers try is moved to the dead-letter table.
//
// What the database stores of a payload is its value: PostgreSQL and MySQL write JSON in an order
// of members and with spaces of their own. Only the value comes back, never the bytes.
//
// # The open form
//
// Inside the process an event that is delivered is an ordinary Watermill message, which
// [Envelope.Message] and [FromMessage] convert: the payload is the JSON, the UUID the event's id,
// the same in every attempt, and the rest metadata under the Metadata constants.
//
// # Operations
//
// Delivered rows stay. [Outbox.Purge] deletes them in small batches, [Outbox.DeadLetters],
// [Outbox.Replay] and [Outbox.DeleteDeadLetters] see to the dead letters, and [Outbox.Stats] are
// the numbers to watch, which package metrics has as gauges.
//
// # Sharing a table with Rust workers
//
// Both may publish into one table. A Rust worker takes every row that is due, whatever its type:
// only workers that know every type of event may consume the table, and all of them have to make
// the same number of attempts. Otherwise each side consumes a table of its own.
//
// # Errors
//
// Every error about an event is an [*Error] with a [Code]; envelope.IsPermanent and
// envelope.IsTransient tell the classes apart. No error of this package, no printed envelope and
// no log line of it shows a payload.
package outbox
