package sqlinbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/inbox"
	"github.com/watermill-envelope/envelope/inbox/sqlinbox"
)

// A server is a database that says of each statement what the test wants, and notes it. Real
// ones are in the integration tests.
type server struct {
	log                    []string
	connect, exec, commit_ error
	affected               int64
}

func (s *server) Connect(context.Context) (driver.Conn, error) { return s, s.connect }
func (s *server) Driver() driver.Driver                        { return nil }
func (s *server) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (s *server) Close() error                                 { return nil }

func (s *server) Begin() (driver.Tx, error) {
	s.log = append(s.log, "BEGIN")
	return s, nil
}

func (s *server) Commit() error {
	s.log = append(s.log, "COMMIT")
	return s.commit_
}

func (s *server) Rollback() error {
	s.log = append(s.log, "ROLLBACK")
	return nil
}

func (s *server) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	for _, a := range args {
		if bytes, ok := a.Value.([]byte); ok {
			a.Value = "bytes of " + string(bytes)
		}
		text, _ := a.Value.(string)
		query += " -- " + text
	}
	s.log = append(s.log, query)
	return driver.RowsAffected(s.affected), s.exec
}

// on returns an inbox on s.
func on(t *testing.T, s *server, d sqlinbox.Dialect) *sqlinbox.Inbox {
	t.Helper()
	db := sql.OpenDB(s)
	t.Cleanup(func() { db.Close() })
	i, err := sqlinbox.New(sqlinbox.Config{DB: db, Dialect: d})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

const postgresInsert = `INSERT INTO "envelope_inbox" ("message_key") VALUES ($1) ON CONFLICT ("message_key") DO NOTHING`

type stateError string

func (e stateError) Error() string    { return "ERROR (SQLSTATE " + string(e) + ")" }
func (e stateError) SQLState() string { return string(e) }

func TestOnce(t *testing.T) {
	down, own := errors.New("connection refused"), errors.New("no stock")
	conflict := stateError("40001")
	tests := []struct {
		rule  string
		s     server
		fn    error
		first bool
		is    []error // what the error is; none: no error
		class string
		log   string
	}{
		{"new", server{affected: 1}, nil, true, nil, "", "BEGIN|insert|fn|COMMIT"},
		{"a duplicate", server{}, nil, false, nil, "", "BEGIN|insert|ROLLBACK"},
		{"the handler fails", server{affected: 1}, own, false, []error{own}, "", "BEGIN|insert|fn|ROLLBACK"},
		{"no connection", server{connect: down}, nil, false, []error{down, inbox.ErrUnavailable}, "transient", ""},
		{"the insert fails", server{exec: down}, nil, false, []error{down, inbox.ErrUnavailable}, "transient", "BEGIN|insert|ROLLBACK"},
		{"a deadlock in the insert", server{exec: stateError("40P01")}, nil, false, []error{inbox.ErrConflict}, "transient", "BEGIN|insert|ROLLBACK"},
		{"the commit fails", server{affected: 1, commit_: down}, nil, false, []error{down, inbox.ErrUnavailable}, "transient", "BEGIN|insert|fn|COMMIT"},
		{"a serialization failure at the commit", server{affected: 1, commit_: conflict}, nil, false, []error{conflict, inbox.ErrConflict}, "transient", "BEGIN|insert|fn|COMMIT"},
		{"a serialization failure in the handler", server{affected: 1}, conflict, false, []error{conflict, inbox.ErrConflict}, "transient", "BEGIN|insert|fn|ROLLBACK"},
		{"one that the handler calls permanent", server{affected: 1}, envelope.Permanent(conflict), false, []error{conflict}, "permanent", "BEGIN|insert|fn|ROLLBACK"},
		{
			"pgx: a handler that hid an error",
			server{affected: 1, commit_: errors.New("commit unexpectedly resulted in rollback")},
			nil, false,
			[]error{},
			"", "BEGIN|insert|fn|COMMIT",
		},
		{
			"lib/pq: a handler that hid an error",
			server{affected: 1, commit_: errors.New("pq: Could not complete operation in a failed transaction")},
			nil, false,
			[]error{},
			"", "BEGIN|insert|fn|COMMIT",
		},
	}
	for _, test := range tests {
		t.Run(strings.ReplaceAll(test.rule, " ", "-"), func(t *testing.T) {
			s := &test.s
			first, err := on(t, s, sqlinbox.PostgreSQL).Once(t.Context(), "h:1", func(ctx context.Context) error {
				s.log = append(s.log, "fn")
				if _, ok := sqlinbox.Tx(ctx); !ok {
					t.Error("the handler has no transaction")
				}
				return test.fn
			})
			if first != test.first || (err == nil) != (test.is == nil) {
				t.Errorf("%v, %v", first, err)
			}
			for _, is := range test.is {
				if !errors.Is(err, is) {
					t.Errorf("%v is not %v", err, is)
				}
			}
			if envelope.IsTransient(err) != (test.class == "transient") || envelope.IsPermanent(err) != (test.class == "permanent") {
				t.Errorf("%v is not %s", err, test.class)
			}
			got := strings.ReplaceAll(strings.Join(s.log, "|"), postgresInsert+" -- h:1", "insert")
			if got != test.log {
				t.Errorf("statements %s, want %s", got, test.log)
			}
		})
	}
}

// Keys that not every database holds are their digest.
func TestStoredKeys(t *testing.T) {
	for _, test := range []struct{ key, stored string }{
		{"h:1", "h:1"},
		{strings.Repeat("k", 255), strings.Repeat("k", 255)},
		{strings.Repeat("k", 256), "sha256:ce16fe78208a4e93f7158e62393680e025b2ad584f4e875ce903a654bb74cf93"},
		{"h:\x00", "sha256:2031561f4b685fd728cf5d17b62c149d5c73ab4d0cfb351b8e8dcc4c029a5070"},
		{"h:\xff", "sha256:881d4b550275e9915c9bf7f2688b8c4f9d036f78043b92efbbb5452d3b0e3add"},
		{"sha256:0", "sha256:ddadc6908c781f027b323fc063b40d6aee12e6512460962df43f57671df561cc"},
	} {
		s := &server{}
		if _, err := on(t, s, sqlinbox.SQLite).Once(t.Context(), test.key, nil); err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(s.log[1], " -- ")
		if got != test.stored {
			t.Errorf("%.20q is stored as %q, want %q", test.key, got, test.stored)
		}
	}
	s := &server{}
	if _, err := on(t, s, sqlinbox.MySQL).Once(t.Context(), "h:1", nil); err != nil {
		t.Fatal(err)
	}
	const want = "INSERT IGNORE INTO `envelope_inbox` (`message_key`) VALUES (?) -- bytes of h:1"
	if s.log[1] != want {
		t.Errorf("got %s, want %s", s.log[1], want)
	}
}

func TestSchema(t *testing.T) {
	for _, test := range []struct {
		d    sqlinbox.Dialect
		want string
	}{
		{sqlinbox.PostgreSQL, `CREATE TABLE IF NOT EXISTS "envelope_inbox" (
  "message_key" TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  "handled_at" TIMESTAMPTZ NOT NULL DEFAULT (NOW())
);
CREATE INDEX IF NOT EXISTS "envelope_inbox_handled_at" ON "envelope_inbox" ("handled_at");
`},
		{sqlinbox.MySQL, "CREATE TABLE IF NOT EXISTS `envelope_inbox` (\n" +
			"  `message_key` VARBINARY(255) NOT NULL PRIMARY KEY,\n" +
			"  `handled_at` DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),\n" +
			"  KEY `envelope_inbox_handled_at` (`handled_at`)\n" +
			") ENGINE=InnoDB;\n"},
		{sqlinbox.SQLite, `CREATE TABLE IF NOT EXISTS "envelope_inbox" (
  "message_key" TEXT NOT NULL PRIMARY KEY,
  "handled_at" TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
CREATE INDEX IF NOT EXISTS "envelope_inbox_handled_at" ON "envelope_inbox" ("handled_at");
`},
	} {
		s := &server{}
		i := on(t, s, test.d)
		if got := i.Schema(); got != test.want {
			t.Errorf("%v:\n%s\nwant\n%s", test.d, got, test.want)
		}
		if err := i.Apply(t.Context()); err != nil {
			t.Error(err)
		}
		if got := strings.Join(s.log, ";\n") + ";\n"; got != test.want {
			t.Errorf("%v: Apply runs\n%s", test.d, got)
		}
	}
	i := on(t, &server{exec: errors.New("permission denied")}, sqlinbox.PostgreSQL)
	if err := i.Apply(t.Context()); err == nil || err.Error() != "sqlinbox: apply envelope_inbox: permission denied" {
		t.Error(err)
	}
	if _, err := i.Prune(t.Context(), time.Hour, 1); !envelope.IsTransient(err) {
		t.Errorf("%v is not transient", err)
	}
}

func TestConfig(t *testing.T) {
	db := sql.OpenDB(&server{})
	t.Cleanup(func() { db.Close() })
	for _, test := range []struct {
		c    sqlinbox.Config
		want string
	}{
		{sqlinbox.Config{DB: db, Dialect: sqlinbox.SQLite, Table: strings.Repeat("t", 52)}, ""},
		{sqlinbox.Config{}, "sqlinbox: no DB\nsqlinbox: Dialect: a dialect is required: PostgreSQL, MySQL or SQLite"},
		{sqlinbox.Config{DB: db, Dialect: 9, Table: strings.Repeat("t", 53), TxOptions: sql.TxOptions{ReadOnly: true}}, "sqlinbox: Dialect: no such dialect: 9\n" +
			"sqlinbox: Table: identifier of 53 bytes, at most 52\nsqlinbox: TxOptions are read-only"},
		{sqlinbox.Config{DB: db, Dialect: sqlinbox.MySQL, Table: "x`; DROP"}, "sqlinbox: Table: identifier \"x`; DROP\" is not letters, digits and underscores, the first not a digit"},
	} {
		_, err := sqlinbox.New(test.c)
		if err == nil && test.want != "" || err != nil && err.Error() != test.want {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}
