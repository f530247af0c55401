package outbox_test

import (
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope/outbox"
)

func TestConfig(t *testing.T) {
	for _, test := range []struct {
		rule string
		c    outbox.Config
		want string
	}{
		{"the defaults", outbox.Config{Dialect: outbox.PostgreSQL, Notify: true}, ""},
		{"34 and 46 bytes", outbox.Config{Dialect: outbox.SQLite, Table: strings.Repeat("t", 34), DeadLetterTable: strings.Repeat("d", 46)}, ""},
		{"a reserved word, which is quoted", outbox.Config{Dialect: outbox.MySQL, Table: "order"}, ""},
		{"nothing", outbox.Config{}, "outbox: Dialect: a dialect is required: PostgreSQL, MySQL or SQLite"},
		{"35 bytes", outbox.Config{Dialect: outbox.SQLite, Table: strings.Repeat("t", 35)}, "outbox: Table: identifier of 35 bytes, at most 34"},
		{"47 bytes", outbox.Config{Dialect: outbox.SQLite, DeadLetterTable: strings.Repeat("t", 47)}, "outbox: DeadLetterTable: identifier of 47 bytes, at most 46"},
		{"upper case", outbox.Config{Dialect: outbox.SQLite, Table: "Orders"}, `outbox: Table: identifier "Orders" has an upper-case letter, which PostgreSQL keeps in quotes only`},
		{"a schema", outbox.Config{Dialect: outbox.PostgreSQL, Table: "a.b"}, `outbox: Table: identifier "a.b" is not letters, digits and underscores, the first not a digit`},
		{
			"all at once",
			outbox.Config{Dialect: outbox.MySQL, Table: `x"; DROP TABLE y; --`, DeadLetterTable: "9", Notify: true},
			`outbox: Table: identifier "x\"; DROP TABLE y; --" is not letters, digits and underscores, the first not a digit` + "\n" +
				`outbox: DeadLetterTable: identifier "9" is not letters, digits and underscores, the first not a digit` + "\n" +
				"outbox: Notify is for PostgreSQL only",
		},
		{"one table", outbox.Config{Dialect: outbox.SQLite, Table: "a", DeadLetterTable: "a"}, "outbox: Table and DeadLetterTable are one"},
	} {
		o, err := outbox.New(test.c)
		if err == nil && test.want != "" || err != nil && (err.Error() != test.want || o != nil) {
			t.Errorf("%s: %v, want %s", test.rule, err, test.want)
		}
	}
	o := newOutbox(t, outbox.Config{Dialect: outbox.PostgreSQL, Notify: true})
	if o.Table() != "audit_outbox" || o.DeadLetterTable() != "audit_outbox_dead_letter" || o.Channel() != "audit_outbox" {
		t.Errorf("%s, %s, %s", o.Table(), o.DeadLetterTable(), o.Channel())
	}
	if got := newOutbox(t, outbox.Config{Dialect: outbox.PostgreSQL}).Channel(); got != "" {
		t.Error(got)
	}
}

func TestSchema(t *testing.T) {
	for d, want := range map[outbox.Dialect]string{
		outbox.PostgreSQL: `CREATE TABLE IF NOT EXISTS "audit_outbox" (
  id BIGSERIAL PRIMARY KEY,
  event_id UUID NOT NULL UNIQUE,
  event_type VARCHAR(64) NOT NULL,
  payload JSONB NOT NULL,
  subject_id UUID NULL,
  created_at TIMESTAMPTZ NOT NULL DEFAULT (NOW()),
  attempts INTEGER NOT NULL DEFAULT 0,
  last_error TEXT NULL,
  next_retry_at TIMESTAMPTZ NULL,
  delivered_at TIMESTAMPTZ NULL
);
CREATE TABLE IF NOT EXISTS "audit_outbox_dead_letter" (
  id BIGSERIAL PRIMARY KEY,
  event_id UUID NOT NULL UNIQUE,
  event_type VARCHAR(64) NOT NULL,
  payload JSONB NOT NULL,
  subject_id UUID NULL,
  created_at TIMESTAMPTZ NOT NULL,
  attempts INTEGER NOT NULL,
  last_error TEXT NOT NULL,
  exhausted_at TIMESTAMPTZ NOT NULL DEFAULT (NOW())
);
CREATE INDEX IF NOT EXISTS "idx_audit_outbox_pending" ON "audit_outbox" (created_at) WHERE delivered_at IS NULL;
CREATE INDEX IF NOT EXISTS "idx_audit_outbox_subject" ON "audit_outbox" (subject_id, id) WHERE subject_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS "idx_audit_outbox_dead_letter_exhausted_at" ON "audit_outbox_dead_letter" (exhausted_at);
`,
		outbox.MySQL: "CREATE TABLE IF NOT EXISTS `audit_outbox` (\n" +
			"  id BIGINT AUTO_INCREMENT PRIMARY KEY,\n" +
			"  event_id BINARY(16) NOT NULL UNIQUE,\n" +
			"  event_type VARCHAR(64) NOT NULL,\n" +
			"  payload JSON NOT NULL,\n" +
			"  subject_id BINARY(16) NULL,\n" +
			"  created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),\n" +
			"  attempts INT NOT NULL DEFAULT 0,\n" +
			"  last_error TEXT NULL,\n" +
			"  next_retry_at DATETIME(6) NULL,\n" +
			"  delivered_at DATETIME(6) NULL,\n" +
			"  KEY `idx_audit_outbox_pending` (delivered_at, created_at),\n" +
			"  KEY `idx_audit_outbox_subject` (subject_id, id)\n" +
			") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\n" +
			"CREATE TABLE IF NOT EXISTS `audit_outbox_dead_letter` (\n" +
			"  id BIGINT AUTO_INCREMENT PRIMARY KEY,\n" +
			"  event_id BINARY(16) NOT NULL UNIQUE,\n" +
			"  event_type VARCHAR(64) NOT NULL,\n" +
			"  payload JSON NOT NULL,\n" +
			"  subject_id BINARY(16) NULL,\n" +
			"  created_at DATETIME(6) NOT NULL,\n" +
			"  attempts INT NOT NULL,\n" +
			"  last_error TEXT NOT NULL,\n" +
			"  exhausted_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),\n" +
			"  KEY `idx_audit_outbox_dead_letter_exhausted_at` (exhausted_at)\n" +
			") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\n",
		outbox.SQLite: `CREATE TABLE IF NOT EXISTS "audit_outbox" (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  event_id BLOB NOT NULL UNIQUE,
  event_type TEXT NOT NULL,
  payload TEXT NOT NULL,
  subject_id BLOB NULL,
  created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  attempts INTEGER NOT NULL DEFAULT 0,
  last_error TEXT NULL,
  next_retry_at TEXT NULL,
  delivered_at TEXT NULL
);
CREATE TABLE IF NOT EXISTS "audit_outbox_dead_letter" (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  event_id BLOB NOT NULL UNIQUE,
  event_type TEXT NOT NULL,
  payload TEXT NOT NULL,
  subject_id BLOB NULL,
  created_at TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  last_error TEXT NOT NULL,
  exhausted_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
CREATE INDEX IF NOT EXISTS "idx_audit_outbox_pending" ON "audit_outbox" (created_at) WHERE delivered_at IS NULL;
CREATE INDEX IF NOT EXISTS "idx_audit_outbox_subject" ON "audit_outbox" (subject_id, id) WHERE subject_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS "idx_audit_outbox_dead_letter_exhausted_at" ON "audit_outbox_dead_letter" (exhausted_at);
`,
	} {
		if got := newOutbox(t, outbox.Config{Dialect: d}).Schema(); got != want {
			t.Errorf("%v:\n%s\nwant\n%s", d, got, want)
		}
	}
}
