package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// A statement is what a driver was asked.
type statement struct {
	text string
	args []driver.NamedValue
	took time.Duration // until the answer began
}

// A recorder keeps what is asked of a driver, once it is told to.
type recorder struct {
	driver.Connector
	mu         sync.Mutex
	on         bool
	statements []statement
}

// record opens a database whose statements are recorded.
func record(t testing.TB, driverName, source string) (*recorder, *sql.DB) {
	t.Helper()
	r := &recorder{}
	if driverName == "pgx" {
		config, err := pgx.ParseConfig(source)
		if err != nil {
			t.Fatal(err)
		}
		r.Connector = stdlib.GetConnector(*config)
	} else {
		config, err := mysql.ParseDSN(source)
		if err != nil {
			t.Fatal(err)
		}
		if r.Connector, err = mysql.NewConnector(config); err != nil {
			t.Fatal(err)
		}
	}
	db := sql.OpenDB(r)
	t.Cleanup(func() { db.Close() })
	return r, db
}

// Connect implements driver.Connector.
func (r *recorder) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := r.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &recorderConn{conn.(fullConn), r}, nil
}

// record begins, or ends, and forgets what was recorded.
func (r *recorder) record(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on, r.statements = on, nil
}

// recorded returns the statements that hold a text.
func (r *recorder) recorded(text string) (found []statement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.statements {
		if strings.Contains(s.text, text) {
			found = append(found, s)
		}
	}
	return found
}

func (r *recorder) add(text string, args []driver.NamedValue, begin time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.on {
		r.statements = append(r.statements, statement{text, args, time.Since(begin)})
	}
}

// A fullConn is what the drivers' connections are.
type fullConn interface {
	driver.Conn
	driver.QueryerContext
	driver.ExecerContext
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.Pinger
	driver.NamedValueChecker
	driver.SessionResetter
}

type recorderConn struct {
	fullConn
	r *recorder
}

// QueryContext implements driver.QueryerContext.
func (c *recorderConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	begin := time.Now()
	rows, err := c.fullConn.QueryContext(ctx, text, args)
	if err != driver.ErrSkip {
		c.r.add(text, args, begin)
	}
	return rows, err
}

// ExecContext implements driver.ExecerContext.
func (c *recorderConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	begin := time.Now()
	result, err := c.fullConn.ExecContext(ctx, text, args)
	if err != driver.ErrSkip {
		c.r.add(text, args, begin)
	}
	return result, err
}

// PrepareContext implements driver.ConnPrepareContext: the drivers have statements prepared for
// what they cannot ask at once.
func (c *recorderConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	stmt, err := c.fullConn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return &recorderStmt{stmt.(fullStmt), c.r, text}, nil
}

type fullStmt interface {
	driver.Stmt
	driver.StmtQueryContext
	driver.StmtExecContext
}

type recorderStmt struct {
	fullStmt
	r    *recorder
	text string
}

// QueryContext implements driver.StmtQueryContext.
func (s *recorderStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	begin := time.Now()
	rows, err := s.fullStmt.QueryContext(ctx, args)
	s.r.add(s.text, args, begin)
	return rows, err
}

// ExecContext implements driver.StmtExecContext.
func (s *recorderStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	begin := time.Now()
	result, err := s.fullStmt.ExecContext(ctx, args)
	s.r.add(s.text, args, begin)
	return result, err
}
