// Package sqlite runs what is kept in a database on SQLite, which is compiled into the tests.
package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/watermill-envelope/envelope/inbox/sqlinbox"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

// open returns connections to the file, which wait a second for each other's locks.
func open(t testing.TB, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(1000)&_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestInboxOnSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "inbox.db")
	suite.SQLInbox(t, suite.SQLDatabase{
		Dialect:   sqlinbox.SQLite,
		Open:      func(t testing.TB) *sql.DB { return open(t, file) },
		Closed:    func(t testing.TB) *sql.DB { return open(t, filepath.Join(t.TempDir(), "no", "folder")) },
		Isolation: []sql.IsolationLevel{sql.LevelDefault},
	})
}
