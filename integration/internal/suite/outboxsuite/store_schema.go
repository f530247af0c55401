package outboxsuite

import (
	"errors"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/outbox"
)

// What is printed can be run as it is, any number of times, also for a name that is a reserved
// word, and is all that Check wants.
func schema(t *testing.T, d suite.SQLDatabase) {
	for _, name := range []string{"select", strings.Repeat("t", outbox.MaxTableBytes)} {
		o, err := outbox.New(outbox.Config{Dialect: d.Dialect, Table: name})
		must(t, err)
		db := d.Open(t)
		for _, missing := range []string{name, o.DeadLetterTable()} {
			if err := o.Check(t.Context(), db); !errors.Is(err, outbox.ErrSchema) || !strings.Contains(err.Error(), missing+": schema: table: is missing") {
				t.Errorf("before it is applied: %v", err)
			}
		}
		for _, statement := range strings.SplitAfter(o.Schema(), ";\n") {
			if statement != "" {
				_, err := db.ExecContext(t.Context(), statement)
				must(t, err)
			}
		}
		must(t, o.Apply(t.Context(), db))
		must(t, o.Check(t.Context(), db))
		_, err = o.Publish(t.Context(), db, nth(1))
		must(t, err)
		_, err = o.Stats(t.Context(), db, 5)
		must(t, err)
		must(t, o.Check(t.Context(), db))
	}
}

// Check tells everything at once.
func damaged(t *testing.T, d suite.SQLDatabase) {
	b := newTable(t, d)
	damage := map[outbox.Dialect]map[string]string{
		outbox.PostgreSQL: {
			"ALTER TABLE # DROP COLUMN last_error":                                        "column last_error: is missing",
			"ALTER TABLE # ALTER COLUMN payload TYPE json USING payload::json":            "column payload: is json, want jsonb",
			"ALTER TABLE # ALTER COLUMN event_type TYPE varchar(32)":                      "column event_type: is character varying(32), want character varying(64)",
			"ALTER TABLE # ALTER COLUMN next_retry_at TYPE timestamp":                     "column next_retry_at: is timestamp without time zone, want timestamp with time zone",
			"ALTER TABLE # ALTER COLUMN attempts DROP NOT NULL":                           "column attempts: may be NULL, want NOT NULL",
			"ALTER TABLE # ALTER COLUMN created_at DROP DEFAULT":                          `column created_at: has the default "", want now()`,
			"ALTER TABLE # ALTER COLUMN subject_id SET NOT NULL":                          "column subject_id: is NOT NULL, want NULL",
			"ALTER TABLE # DROP CONSTRAINT #_event_id_key":                                "column event_id: is not UNIQUE",
			"DROP INDEX idx_#_pending":                                                    "index idx_#_pending: is missing, on (created_at) WHERE delivered_at IS NULL",
			"DROP INDEX idx_#_dead_letter_exhausted_at":                                   "index idx_#_dead_letter_exhausted_at: is missing, on (exhausted_at)",
			"ALTER TABLE #_dead_letter ALTER COLUMN last_error DROP NOT NULL":             "column last_error: may be NULL, want NOT NULL",
			"CREATE INDEX ON # (created_at) WHERE delivered_at IS NOT NULL":               "",
			"ALTER TABLE # ADD COLUMN mine integer":                                       "",
			"ALTER INDEX idx_#_subject RENAME TO renamed_#":                               "",
			"ALTER TABLE #_dead_letter ALTER COLUMN attempts TYPE bigint":                 "column attempts: is bigint, want integer",
			"ALTER TABLE #_dead_letter ALTER COLUMN subject_id TYPE text":                 "column subject_id: is text, want uuid",
			"ALTER TABLE #_dead_letter ALTER COLUMN exhausted_at SET DEFAULT '-infinity'": `want now()`,
		},
		outbox.MySQL: {
			"ALTER TABLE # DROP COLUMN last_error":                                                  "column last_error: is missing",
			"ALTER TABLE # MODIFY payload TEXT NOT NULL":                                            "column payload: is text, want json",
			"ALTER TABLE # MODIFY event_type VARCHAR(32) NOT NULL":                                  "column event_type: is varchar(32), want varchar(64)",
			"ALTER TABLE #_dead_letter MODIFY event_type VARCHAR(64) CHARACTER SET latin1 NOT NULL": "column event_type: is in the character set latin1, want utf8mb4",
			"ALTER TABLE # MODIFY next_retry_at TIMESTAMP(6) NULL":                                  "column next_retry_at: is timestamp(6), want datetime(6)",
			"ALTER TABLE # MODIFY created_at DATETIME(6) NOT NULL DEFAULT NOW(6)":                   "column created_at: has the default \"current_timestamp(6)\", want utc_timestamp",
			"ALTER TABLE # MODIFY attempts INT NULL DEFAULT 0":                                      "column attempts: may be NULL, want NOT NULL",
			"ALTER TABLE # DROP INDEX event_id":                                                     "column event_id: is not UNIQUE",
			"ALTER TABLE # DROP INDEX idx_#_pending":                                                "index idx_#_pending: is missing, on (delivered_at, created_at)",
			"ALTER TABLE #_dead_letter ENGINE = MyISAM":                                             "engine: is MyISAM, want InnoDB",
		},
		outbox.SQLite: {
			"ALTER TABLE # DROP COLUMN last_error":                                 "column last_error: is missing",
			"DROP INDEX idx_#_pending":                                             "index idx_#_pending: is missing, on (created_at) WHERE delivered_at IS NULL",
			"CREATE INDEX mine_# ON # (created_at) WHERE delivered_at IS NOT NULL": "",
			"DROP TABLE #_dead_letter":                                             "table: is missing",
		},
	}[d.Dialect]
	for statement := range damage {
		_, err := b.db.ExecContext(t.Context(), strings.ReplaceAll(statement, "#", b.name))
		must(t, err)
	}
	err := b.Check(t.Context(), b.db)
	if !errors.Is(err, outbox.ErrSchema) {
		t.Fatal(err)
	}
	lines := 0
	for statement, want := range damage {
		if want != "" {
			lines++
		}
		if !strings.Contains(err.Error(), strings.ReplaceAll(want, "#", b.name)) {
			t.Errorf("%s: not found in\n%v", statement, err)
		}
	}
	if got := strings.Count(err.Error(), "\n") + 1; got != lines {
		t.Errorf("%d problems, want %d:\n%v", got, lines, err)
	}
}

// wrongRows are written in encodings that not every worker reads.
func wrongRows(t *testing.T, d suite.SQLDatabase) {
	b := newTable(t, d)
	b.put(nth(1), nth(2))
	rows := map[outbox.Dialect]map[string]string{
		outbox.PostgreSQL: {
			"attempts = -1":              "column attempts: is negative in 1 of the newest rows",
			"next_retry_at = 'infinity'": "column next_retry_at: is infinite in 1 of the newest rows",
			"event_type = ''":            "column event_type: is empty in 1 of the newest rows",
		},
		outbox.MySQL: {
			"attempts = -1":   "column attempts: is negative in 1 of the newest rows",
			"event_type = ''": "column event_type: is empty in 1 of the newest rows",
		},
		outbox.SQLite: {
			"event_id = '0192f0a1-0000-71'":       "column event_id: is not a blob of 16 bytes in 1 of the newest rows",
			"subject_id = '0192f0a1-0000-70'":     "column subject_id: is not a blob of 16 bytes in 1 of the newest rows",
			"payload = CAST('{}' AS BLOB)":        "column payload: is not JSON as a text in 1 of the newest rows",
			"created_at = '2025-01-21T22:53:20Z'": "column created_at: has not the form 2006-01-02T15:04:05.000Z in 1 of the newest rows",
			"next_retry_at = 1737500000":          "column next_retry_at: has not the form 2006-01-02T15:04:05.000Z in 1 of the newest rows",
			"attempts = 'two'":                    "column attempts: is not an integer in 1 of the newest rows",
		},
	}[d.Dialect]
	for set := range rows {
		b.exec("UPDATE " + b.name + " SET " + set + " WHERE id = 1")
	}
	b.exec("UPDATE " + b.name + " SET delivered_at = '2025-01-21 22:53:20' WHERE id = 2") // as Rust reads it too
	err := b.Check(t.Context(), b.db)
	for set, want := range rows {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: not found in\n%v", set, err)
		}
	}
	if err == nil || strings.Count(err.Error(), "\n")+1 != len(rows) {
		t.Errorf("want %d problems:\n%v", len(rows), err)
	}
}
