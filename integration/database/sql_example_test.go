package database

import (
	"testing"

	"github.com/watermill-envelope/envelope/internal/exampletest"
)

// The example program over watermill-sql keeps its orders in PostgreSQL.
func TestSQLExample(t *testing.T) {
	exampletest.RunPackage(t, "../../examples/sql", "-dsn", postgresServer.URL())
}
