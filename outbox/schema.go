package outbox

import (
	"context"
	"database/sql"
	"slices"
	"strings"
)

const (
	indexPrefix     = "idx_"
	pendingSuffix   = "_pending"
	subjectSuffix   = "_subject"
	exhaustedSuffix = "_exhausted_at"
)

// Schema returns the statements that make the two tables and their indexes, unless they are there,
// each with a semicolon and a line's end behind it: for a migration, or for [Outbox.Apply].
//
// They are those of Hexeract's outbox: a table that a Rust service made is as good. On MySQL they
// add what the server's defaults might have otherwise, an engine with transactions and UTF-8.
func (o *Outbox) Schema() string {
	return strings.Join(o.ddl(), ";\n") + ";\n"
}

// Apply runs [Outbox.Schema]. What is there already it leaves as it is, whatever it is: see
// [Outbox.Check]. Two that run it at once on PostgreSQL may fail, and succeed when they try again.
func (o *Outbox) Apply(ctx context.Context, db *sql.DB) error {
	for _, statement := range o.ddl() {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return &Error{Code: CodeDatabase, Op: "apply", Table: o.config.Table, Err: err}
		}
	}
	return nil
}

// types are the types of columns that dialects call by other names.
type types struct{ id, uuid, eventType, payload, time, integer string }

func typesOf(d Dialect) types {
	switch d {
	case PostgreSQL:
		return types{"BIGSERIAL PRIMARY KEY", "UUID", "VARCHAR(64)", "JSONB", "TIMESTAMPTZ", "INTEGER"}
	case MySQL:
		return types{"BIGINT AUTO_INCREMENT PRIMARY KEY", "BINARY(16)", "VARCHAR(64)", "JSON", "DATETIME(6)", "INT"}
	}
	return types{"INTEGER PRIMARY KEY AUTOINCREMENT", "BLOB", "TEXT", "TEXT", "TEXT", "INTEGER"}
}

func (o *Outbox) ddl() []string {
	d, t := o.config.Dialect, typesOf(o.config.Dialect)
	now := " DEFAULT (" + d.Now() + ")"
	event := []string{
		"id " + t.id,
		"event_id " + t.uuid + " NOT NULL UNIQUE",
		"event_type " + t.eventType + " NOT NULL",
		"payload " + t.payload + " NOT NULL",
		"subject_id " + t.uuid + " NULL",
	}
	main := append(slices.Clip(event),
		"created_at "+t.time+" NOT NULL"+now,
		"attempts "+t.integer+" NOT NULL DEFAULT 0",
		"last_error TEXT NULL",
		"next_retry_at "+t.time+" NULL",
		"delivered_at "+t.time+" NULL",
	)
	dead := append(slices.Clip(event),
		"created_at "+t.time+" NOT NULL",
		"attempts "+t.integer+" NOT NULL",
		"last_error TEXT NOT NULL",
		"exhausted_at "+t.time+" NOT NULL"+now,
	)
	index := o.indexes()
	if d == MySQL {
		// MySQL has no CREATE INDEX IF NOT EXISTS, so the indexes are made with the table.
		for _, i := range index {
			column := "KEY " + d.Quote(i.name) + " (" + i.columns + ")"
			if i.table == o.config.Table {
				main = append(main, column)
			} else {
				dead = append(dead, column)
			}
		}
	}
	create := func(table string, columns []string) string {
		text := "CREATE TABLE IF NOT EXISTS " + d.Quote(table) + " (\n  " + strings.Join(columns, ",\n  ") + "\n)"
		if d == MySQL {
			text += " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
		}
		return text
	}
	statements := []string{create(o.config.Table, main), create(o.config.DeadLetterTable, dead)}
	if d == MySQL {
		return statements
	}
	for _, i := range index {
		text := "CREATE INDEX IF NOT EXISTS " + d.Quote(i.name) + " ON " + d.Quote(i.table) + " (" + i.columns + ")"
		if i.where != "" {
			text += " WHERE " + i.where
		}
		statements = append(statements, text)
	}
	return statements
}

// An index is one beside those that a primary key and UNIQUE make.
type index struct{ name, table, columns, where string }

func (o *Outbox) indexes() []index {
	table, dead := o.config.Table, o.config.DeadLetterTable
	pending := index{indexPrefix + table + pendingSuffix, table, "created_at", "delivered_at IS NULL"}
	subject := index{indexPrefix + table + subjectSuffix, table, "subject_id, id", "subject_id IS NOT NULL"}
	if o.config.Dialect == MySQL { // which has no partial indexes
		pending.columns, pending.where, subject.where = "delivered_at, created_at", "", ""
	}
	return []index{pending, subject, {indexPrefix + dead + exhaustedSuffix, dead, "exhausted_at", ""}}
}
