package outbox

import "github.com/watermill-envelope/envelope/internal/sqldialect"

// A Dialect is a kind of database. The zero Dialect is invalid.
type Dialect = sqldialect.Dialect

// The databases that are supported. What is called here MySQL is MariaDB as well.
const (
	PostgreSQL = sqldialect.PostgreSQL
	MySQL      = sqldialect.MySQL
	SQLite     = sqldialect.SQLite
)
