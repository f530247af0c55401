package outbox

import (
	"context"
	"database/sql"
	"errors"
	"strings"
)

// A foundColumn is a column as the database describes it.
type foundColumn struct {
	kind         string // in lower case
	notNull, key bool   // a key that is an id needs no NOT NULL
	defaults     string
	charset      string // of MySQL
}

// columnsOf returns the columns of a table that is found as a statement would find it: none, when
// there is no such table.
func (o *Outbox) columnsOf(ctx context.Context, db *sql.DB, table string) (map[string]foundColumn, error) {
	var text string
	switch o.config.Dialect {
	case PostgreSQL:
		text = `SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, false, COALESCE(pg_get_expr(d.adbin, d.adrelid), ''), ''
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = to_regclass(CAST($1 AS text)) AND a.attnum > 0 AND NOT a.attisdropped`
		table = o.config.Dialect.Quote(table)
	case MySQL:
		text = `SELECT column_name, column_type, is_nullable = 'NO', false, COALESCE(column_default, ''), COALESCE(character_set_name, '')
FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ?`
	case SQLite:
		text = `SELECT name, type, "notnull", pk > 0, COALESCE(dflt_value, ''), '' FROM pragma_table_info(?)`
	}
	rows, err := db.QueryContext(ctx, text, table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := make(map[string]foundColumn)
	for rows.Next() {
		var (
			name string
			c    foundColumn
		)
		if err := rows.Scan(&name, &c.kind, &c.notNull, &c.key, &c.defaults, &c.charset); err != nil {
			return nil, err
		}
		c.kind = strings.ToLower(c.kind)
		if width, _, ok := strings.Cut(c.kind, "("); ok && (width == "int" || width == "bigint") {
			c.kind = width // which MariaDB shows with a width
		}
		found[name] = c
	}
	return found, errors.Join(rows.Err(), rows.Close())
}

// A foundIndex is an index of a table as the database describes it: its columns with commas
// between them, and what rows it is about, in lower case.
type foundIndex struct {
	unique         bool
	columns, where string
}

func (o *Outbox) indexesOf(ctx context.Context, db *sql.DB, table string) ([]foundIndex, error) {
	var text string
	switch o.config.Dialect {
	case PostgreSQL:
		text = `SELECT i.indisunique, (SELECT string_agg(pg_get_indexdef(i.indexrelid, k, true), ', ' ORDER BY k) FROM generate_series(1, i.indnkeyatts) AS k),
COALESCE(pg_get_expr(i.indpred, i.indrelid, true), '')
FROM pg_index i WHERE i.indrelid = to_regclass(CAST($1 AS text)) AND i.indisvalid`
		table = o.config.Dialect.Quote(table)
	case MySQL:
		text = `SELECT min(non_unique) = 0, group_concat(column_name ORDER BY seq_in_index SEPARATOR ', '), ''
FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = ? GROUP BY index_name`
	case SQLite:
		// A table's id is an index of its own that is not in the list.
		text = `SELECT l."unique", (SELECT group_concat(i.name, ', ') FROM pragma_index_info(l.name) AS i), CASE WHEN l.partial THEN COALESCE(m.sql, '') ELSE '' END
FROM pragma_index_list(?1) AS l LEFT JOIN sqlite_master AS m ON m.type = 'index' AND m.name = l.name
UNION ALL SELECT 1, c.name, '' FROM pragma_table_info(?1) AS c WHERE c.pk = 1 AND upper(c.type) = 'INTEGER'`
	}
	rows, err := db.QueryContext(ctx, text, table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []foundIndex
	for rows.Next() {
		var (
			i       foundIndex
			columns sql.NullString
		)
		if err := rows.Scan(&i.unique, &columns, &i.where); err != nil {
			return nil, err
		}
		i.columns, i.where = columns.String, predicate(i.where)
		found = append(found, i)
	}
	return found, errors.Join(rows.Err(), rows.Close())
}

// predicate is what an index is about, as text of one form: PostgreSQL shows the expression,
// SQLite the statement that made the index.
func predicate(text string) string {
	text = strings.Join(strings.Fields(strings.ToLower(text)), " ")
	if _, where, ok := strings.Cut(text, " where "); ok {
		text = where
	}
	text = strings.TrimSuffix(strings.TrimPrefix(text, "("), ")")
	return strings.NewReplacer(`"`, "", "`", "").Replace(text)
}
