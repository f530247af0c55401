package sqldialect

import (
	"fmt"
	"time"
)

// Now returns the expression of the time by the database's clock, as columns of
// [Dialect.TimeType] hold it. Within a transaction of PostgreSQL it is the time of its begin.
func (d Dialect) Now() string {
	switch d {
	case PostgreSQL:
		return "NOW()"
	case MySQL:
		return "UTC_TIMESTAMP(6)"
	}
	return "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
}

// NowPlus returns the expression of a time that is as far from [Dialect.Now] as the argument of
// the placeholder says, which [Dialect.Interval] returns.
func (d Dialect) NowPlus(placeholder string) string {
	switch d {
	case PostgreSQL:
		return "NOW() + CAST(" + placeholder + " AS double precision) * INTERVAL '1 second'"
	case MySQL:
		return "UTC_TIMESTAMP(6) + INTERVAL " + placeholder + " MICROSECOND"
	}
	return "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', " + placeholder + ")"
}

// Interval returns the argument for the placeholder of [Dialect.NowPlus]: seconds, microseconds
// or a modifier of SQLite's, by the dialect. A negative one is before now. What is smaller than
// the unit of the clock, a microsecond and for SQLite a millisecond, is cut off.
func (d Dialect) Interval(interval time.Duration) any {
	switch d {
	case PostgreSQL:
		return interval.Truncate(time.Microsecond).Seconds()
	case MySQL:
		return interval.Microseconds()
	}
	sign, ms := "+", interval.Milliseconds()
	if ms < 0 {
		sign, ms = "-", -ms
	}
	return fmt.Sprintf("%s%d.%03d seconds", sign, ms/1000, ms%1000)
}

// TimeType returns the type of a column of times: with a zone, as UTC, or as text that sorts by
// time.
func (d Dialect) TimeType() string {
	switch d {
	case PostgreSQL:
		return "TIMESTAMPTZ"
	case MySQL:
		return "DATETIME(6)"
	}
	return "TEXT"
}
