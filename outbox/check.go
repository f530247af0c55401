package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Check reports everything that is wrong with the two tables, joined, each an [*Error] with
// CodeSchema: a table or a column that is missing, of another type, null where it must not be, or
// without its default; an index that is missing; of MySQL an engine without transactions and a
// character set that does not hold every type; and rows that not every worker can read, of the
// newest 10,000 of each table.
//
// An error with another Code means that the database could not be asked. Columns and indexes
// beyond those that are needed are nobody's business, and nor is what an index is called.
func (o *Outbox) Check(ctx context.Context, db *sql.DB) error {
	var problems []error
	for _, t := range o.wanted() {
		report := func(field, reason string) {
			problems = append(problems, &Error{Code: CodeSchema, Op: "check", Table: t.name, Field: field, Reason: reason})
		}
		if err := o.checkTable(ctx, db, t, report); err != nil {
			return errors.Join(append(problems, o.failure("check", uuid.Nil, "", err))...)
		}
	}
	return errors.Join(problems...)
}

// A wantedTable is a table as it has to be.
type wantedTable struct {
	name    string
	columns []wantedColumn
	indexes []index
}

type wantedColumn struct {
	name  string
	types []string // any of them
	null  bool
	// defaults is a part of the default, in lower case, or empty.
	defaults string
}

func (o *Outbox) wanted() []wantedTable {
	id, binary, name, payload, at, number, text := []string{"bigint"}, []string{"uuid"}, []string{"character varying(64)"},
		[]string{"jsonb"}, []string{"timestamp with time zone"}, []string{"integer"}, []string{"text"}
	now := "now()"
	switch o.config.Dialect {
	case MySQL:
		binary, name, at, number, now = []string{"binary(16)"}, []string{"varchar(64)"}, []string{"datetime(6)"}, []string{"int"}, "utc_timestamp"
		payload, text = []string{"json", "longtext"}, []string{"text", "mediumtext", "longtext"} // JSON is the latter on MariaDB
	case SQLite:
		id, binary, name, payload, at, now = number, []string{"blob"}, text, text, text, "strftime('%y-%m-%dt%h:%m:%fz'"
	}
	event := []wantedColumn{
		{name: "id", types: id},
		{name: "event_id", types: binary},
		{name: "event_type", types: name},
		{name: "payload", types: payload},
		{name: "subject_id", types: binary, null: true},
	}
	main := append(slices.Clip(event),
		wantedColumn{name: "created_at", types: at, defaults: now}, wantedColumn{name: "attempts", types: number, defaults: "0"},
		wantedColumn{name: "last_error", types: text, null: true}, wantedColumn{name: "next_retry_at", types: at, null: true},
		wantedColumn{name: "delivered_at", types: at, null: true})
	dead := append(slices.Clip(event),
		wantedColumn{name: "created_at", types: at}, wantedColumn{name: "attempts", types: number},
		wantedColumn{name: "last_error", types: text}, wantedColumn{name: "exhausted_at", types: at, defaults: now})
	all := o.indexes()
	return []wantedTable{{o.config.Table, main, all[:2]}, {o.config.DeadLetterTable, dead, all[2:]}}
}

func (o *Outbox) checkTable(ctx context.Context, db *sql.DB, t wantedTable, report func(field, reason string)) error {
	columns, err := o.columnsOf(ctx, db, t.name)
	if err != nil {
		return err
	}
	if len(columns) == 0 {
		report("table", "is missing")
		return nil
	}
	missing := false
	for _, want := range t.columns {
		found, ok := columns[want.name]
		if !ok {
			missing = true
			report("column "+want.name, "is missing")
			continue
		}
		for _, problem := range o.compare(want, found) {
			report("column "+want.name, problem)
		}
	}
	indexes, err := o.indexesOf(ctx, db, t.name)
	if err != nil {
		return err
	}
	checkIndexes(t, indexes, report)
	if o.config.Dialect == MySQL {
		var engine sql.NullString
		err := db.QueryRowContext(ctx, "SELECT engine FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?", t.name).Scan(&engine)
		if err != nil {
			return err
		}
		if engine.String != "InnoDB" {
			report("engine", "is "+engine.String+", want InnoDB: others keep what was rolled back")
		}
	}
	if missing {
		return nil
	}
	return o.checkRows(ctx, db, t, report)
}

// compare returns what is wrong with a column.
func (o *Outbox) compare(want wantedColumn, found foundColumn) (problems []string) {
	if !slices.Contains(want.types, found.kind) {
		problems = append(problems, "is "+found.kind+", want "+want.types[0])
	}
	switch {
	case want.null && found.notNull:
		problems = append(problems, "is NOT NULL, want NULL")
	case !want.null && !found.notNull && !found.key:
		problems = append(problems, "may be NULL, want NOT NULL")
	}
	if !strings.Contains(strings.ToLower(found.defaults), want.defaults) {
		problems = append(problems, fmt.Sprintf("has the default %.128q, want %s", found.defaults, want.defaults))
	}
	if want.name == "event_type" && o.config.Dialect == MySQL && !strings.HasPrefix(found.charset, "utf8") {
		problems = append(problems, "is in the character set "+found.charset+", want utf8mb4")
	}
	return problems
}

// checkIndexes looks for the indexes of t, whatever they are called, and for what makes ids unique.
func checkIndexes(t wantedTable, found []foundIndex, report func(field, reason string)) {
	has := func(unique bool, columns, where string) bool {
		return slices.ContainsFunc(found, func(f foundIndex) bool {
			return f.columns == columns && (f.unique || !unique) && (f.where == "" || f.where == where)
		})
	}
	if !has(true, "event_id", "") {
		report("column event_id", "is not UNIQUE")
	}
	if !has(true, "id", "") {
		report("column id", "is not the PRIMARY KEY")
	}
	for _, want := range t.indexes {
		if !has(false, want.columns, strings.ToLower(want.where)) {
			reason := "is missing, on (" + want.columns + ")"
			if want.where != "" {
				reason += " WHERE " + want.where
			}
			report("index "+want.name, reason)
		}
	}
}

// checked is how many rows of a table are looked at.
const checked = 10_000

// checkRows counts the newest rows that a worker of some kind cannot read.
func (o *Outbox) checkRows(ctx context.Context, db *sql.DB, t wantedTable, report func(field, reason string)) error {
	var conditions, fields, reasons []string
	add := func(field, condition, reason string) {
		conditions = append(conditions, "COALESCE(sum(CASE WHEN "+condition+" THEN 1 ELSE 0 END), 0)")
		fields, reasons = append(fields, field), append(reasons, reason)
	}
	add("column event_type", "r.event_type = ''", "is empty")
	add("column attempts", "r.attempts < 0", "is negative")
	for _, c := range t.columns {
		if !strings.HasSuffix(c.name, "_at") {
			continue
		}
		at := "r." + c.name
		switch o.config.Dialect {
		case PostgreSQL:
			add("column "+c.name, at+" IS NOT NULL AND NOT isfinite("+at+")", "is infinite")
		case MySQL:
			add("column "+c.name, at+" IS NOT NULL AND TO_DAYS("+at+") IS NULL", "is no date")
		case SQLite:
			add("column "+c.name, at+" IS NOT NULL AND (typeof("+at+") <> 'text' OR ("+
				at+" <> COALESCE(strftime('%Y-%m-%dT%H:%M:%fZ', "+at+"), '') AND "+at+" <> COALESCE(datetime("+at+"), '')))",
				"has not the form 2006-01-02T15:04:05.000Z")
		}
	}
	switch o.config.Dialect {
	case MySQL:
		add("column payload", "NOT COALESCE(JSON_VALID(r.payload), 0)", "is no JSON")
	case SQLite:
		add("column event_id", "typeof(r.event_id) <> 'blob' OR length(r.event_id) <> 16", "is not a blob of 16 bytes")
		add("column subject_id", "r.subject_id IS NOT NULL AND (typeof(r.subject_id) <> 'blob' OR length(r.subject_id) <> 16)", "is not a blob of 16 bytes")
		add("column event_type", "typeof(r.event_type) <> 'text' OR length(CAST(r.event_type AS BLOB)) > 64", "is not a text of at most 64 bytes")
		add("column payload", "CASE WHEN typeof(r.payload) <> 'text' THEN 1 ELSE NOT json_valid(r.payload) END", "is not JSON as a text")
		add("column attempts", "typeof(r.attempts) <> 'integer'", "is not an integer")
	}
	counts := make([]int64, len(conditions))
	destinations := make([]any, len(conditions))
	for i := range counts {
		destinations[i] = &counts[i]
	}
	err := db.QueryRowContext(ctx, "SELECT "+strings.Join(conditions, ", ")+" FROM (SELECT * FROM "+o.config.Dialect.Quote(t.name)+
		fmt.Sprintf(" ORDER BY id DESC LIMIT %d) AS r", checked)).Scan(destinations...)
	if err != nil {
		return err
	}
	for i, n := range counts {
		if n > 0 {
			report(fields[i], fmt.Sprintf("%s in %d of the newest rows", reasons[i], n))
		}
	}
	return nil
}
