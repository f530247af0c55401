package sqldialect_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/internal/sqldialect"
)

const (
	postgres = sqldialect.PostgreSQL
	mysql    = sqldialect.MySQL
	sqlite   = sqldialect.SQLite
)

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		d    sqldialect.Dialect
		name string
		err  string
	}{
		{postgres, "PostgreSQL", ""},
		{mysql, "MySQL", ""},
		{sqlite, "SQLite", ""},
		{0, "Dialect(0)", "a dialect is required: PostgreSQL, MySQL or SQLite"},
		{4, "Dialect(4)", "no such dialect: 4"},
		{-1, "Dialect(-1)", "no such dialect: -1"},
	} {
		if got := test.d.String(); got != test.name {
			t.Errorf("String: %q, want %q", got, test.name)
		}
		err := test.d.Validate()
		if err == nil && test.err != "" || err != nil && err.Error() != test.err {
			t.Errorf("%v: %v, want %q", test.d, err, test.err)
		}
	}
}

func TestCheckIdentifier(t *testing.T) {
	for _, test := range []struct {
		name string
		ok   bool
		why  string
	}{
		{"inbox", true, ""},
		{"_Inbox9", true, "all that is allowed"},
		{strings.Repeat("a", 20), true, "at the limit"},
		{strings.Repeat("a", 21), false, "over the limit"},
		{"", false, "empty"},
		{"9a", false, "a digit first"},
		{"a.b", false, "a schema"},
		{`a"b`, false, "a quote"},
		{"a`b", false, "MySQL's quote"},
		{"a b", false, "a space"},
		{"a\n", false, "a line's end, which a $ of a pattern lets through"},
		{"ä", false, "not ASCII"},
		{"a\x00", false, "a zero byte"},
	} {
		if err := sqldialect.CheckIdentifier(test.name, 20); (err == nil) != test.ok {
			t.Errorf("%q (%s): %v", test.name, test.why, err)
		}
	}
}

func TestText(t *testing.T) {
	for _, test := range []struct {
		what, got, want string
	}{
		{"quote", postgres.Quote("Order"), `"Order"`},
		{"quote", mysql.Quote("Order"), "`Order`"},
		{"quote", sqlite.Quote("Order"), `"Order"`},
		{"placeholders", postgres.Placeholders(2, 3), "$2, $3, $4"},
		{"placeholders", mysql.Placeholders(2, 3), "?, ?, ?"},
		{"placeholders", sqlite.Placeholders(1, 1), "?"},
		{"no placeholders", postgres.Placeholders(1, 0), ""},
		{"now", postgres.Now(), "NOW()"},
		{"now", mysql.Now(), "UTC_TIMESTAMP(6)"},
		{"now", sqlite.Now(), "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"},
		{"later", postgres.NowPlus("$3"), "NOW() + CAST($3 AS double precision) * INTERVAL '1 second'"},
		{"later", mysql.NowPlus("?"), "UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND"},
		{"later", sqlite.NowPlus("?"), "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?)"},
		{"type", postgres.TimeType(), "TIMESTAMPTZ"},
		{"type", mysql.TimeType(), "DATETIME(6)"},
		{"type", sqlite.TimeType(), "TEXT"},
		{"lock", postgres.SkipLocked(), " FOR UPDATE SKIP LOCKED"},
		{"lock", mysql.SkipLocked(), " FOR UPDATE SKIP LOCKED"},
		{"lock", sqlite.SkipLocked(), ""},
		{"insert", postgres.InsertIfAbsent("t", "id", "x"), `INSERT INTO "t" ("id", "x") VALUES ($1, $2) ON CONFLICT ("id") DO NOTHING`},
		{"insert", mysql.InsertIfAbsent("t", "id", "x"), "INSERT INTO `t` (`id`, `x`) SELECT ?, ? FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM `t` WHERE `id` = ?)"},
		{"insert", sqlite.InsertIfAbsent("t", "id", "x"), `INSERT INTO "t" ("id", "x") VALUES (?, ?) ON CONFLICT ("id") DO NOTHING`},
	} {
		if test.got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.what, test.got, test.want)
		}
	}
}

func TestInterval(t *testing.T) {
	for _, test := range []struct {
		interval time.Duration
		postgres float64
		mysql    int64
		sqlite   string
	}{
		{0, 0, 0, "+0.000 seconds"},
		{90*time.Second + 5*time.Millisecond, 90.005, 90_005_000, "+90.005 seconds"},
		{-1500 * time.Millisecond, -1.5, -1_500_000, "-1.500 seconds"},
		{time.Millisecond - time.Nanosecond, 0.000999, 999, "+0.000 seconds"},
		{-999 * time.Microsecond, -0.000999, -999, "+0.000 seconds"},
	} {
		if got := postgres.Interval(test.interval); got != test.postgres {
			t.Errorf("%v: PostgreSQL %v, want %v", test.interval, got, test.postgres)
		}
		if got := mysql.Interval(test.interval); got != test.mysql {
			t.Errorf("%v: MySQL %v, want %v", test.interval, got, test.mysql)
		}
		if got := sqlite.Interval(test.interval); got != test.sqlite {
			t.Errorf("%v: SQLite %v, want %v", test.interval, got, test.sqlite)
		}
	}
}

func TestUUID(t *testing.T) {
	const text = "0192f0a1-0000-7000-8000-0000000000ff"
	raw := []byte("\x01\x92\xf0\xa1\x00\x00\x70\x00\x80\x00\x00\x00\x00\x00\x00\xff")
	id := uuid.MustParse(text)
	if got := postgres.UUID(id); got != text {
		t.Errorf("PostgreSQL: %v", got)
	}
	for _, d := range []sqldialect.Dialect{mysql, sqlite} {
		got, ok := d.UUID(id).([]byte)
		if !ok || !bytes.Equal(got, raw) {
			t.Errorf("%v: %x", d, got)
		}
		// The bytes are the argument's own.
		got[0] = 0xff
		if id.String() != text {
			t.Errorf("%v: the argument shares the caller's id", d)
		}
	}
}

func TestIfAbsent(t *testing.T) {
	values := make([]any, 2, 5)
	values[0], values[1] = "key", 7
	if got := mysql.IfAbsent(values...); !slices.Equal(got, []any{"key", 7, "key"}) {
		t.Errorf("MySQL: %v", got)
	}
	if got := values[:3][2]; got != nil {
		t.Errorf("behind the caller's values there is %v", got)
	}
	for _, d := range []sqldialect.Dialect{postgres, sqlite} {
		if got := d.IfAbsent(values...); !slices.Equal(got, []any{"key", 7}) {
			t.Errorf("%v: %v", d, got)
		}
	}
}

type stateError string

func (e stateError) Error() string    { return "ERROR: something (SQLSTATE " + string(e) + ")" }
func (e stateError) SQLState() string { return string(e) }

type codeError int

func (e codeError) Error() string { return "something" }
func (e codeError) Code() int     { return int(e) }

func TestIsConflict(t *testing.T) {
	for _, test := range []struct {
		d    sqldialect.Dialect
		err  error
		want bool
		why  string
	}{
		{postgres, nil, false, "no error"},
		{postgres, stateError("40001"), true, "serialization failure"},
		{postgres, stateError("40P01"), true, "deadlock"},
		{postgres, stateError("55P03"), true, "lock timeout"},
		{postgres, stateError("23505"), false, "unique violation"},
		{postgres, fmt.Errorf("pay: %w", stateError("40001")), true, "wrapped"},
		{postgres, errors.Join(errors.New("x"), fmt.Errorf("pay: %w", stateError("40P01"))), true, "joined"},
		{postgres, errors.Join(errors.New("x"), stateError("23505")), false, "joined, none of them"},
		{postgres, errors.New("40001"), false, "a text"},
		{mysql, errors.New("Error 1213 (40001): Deadlock found when trying to get lock"), true, "deadlock"},
		{mysql, errors.New("Error 1205: Lock wait timeout exceeded"), true, "an old driver's text"},
		{mysql, errors.New("Error 1020 (HY000): Record has changed since last read"), true, "MariaDB's snapshot isolation"},
		{mysql, fmt.Errorf("pay: %w", errors.New("Error 3572 (HY000): NOWAIT is set")), true, "wrapped"},
		{mysql, errors.New("Error 1062 (23000): Duplicate entry"), false, "a duplicate"},
		{mysql, errors.New("Error 12130 (HY000): x"), false, "another number that begins alike"},
		{mysql, errors.New("Error 1213"), false, "nothing behind the number"},
		{mysql, errors.New("1213"), false, "a number alone"},
		{mysql, stateError("40001"), false, "another database's"},
		{sqlite, codeError(5), true, "busy"},
		{sqlite, codeError(6), true, "locked"},
		{sqlite, codeError(5 | 2<<8), true, "busy: snapshot"},
		{sqlite, codeError(19), false, "constraint"},
		{sqlite, errors.New("database is locked"), true, "a driver without Code"},
		{sqlite, errors.New("database table is locked: t"), true, "shared cache"},
		{sqlite, errors.New("the database is locked away"), false, "another text"},
	} {
		if got := test.d.IsConflict(test.err); got != test.want {
			t.Errorf("%v, %v (%s): %v", test.d, test.err, test.why, got)
		}
	}
}
