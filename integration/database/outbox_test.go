package database

import (
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite/outboxsuite"
)

func TestOutboxOnPostgres(t *testing.T) { outboxsuite.Run(t, postgresDatabase()) }

func TestOutboxOnMariaDB(t *testing.T) { outboxsuite.Run(t, mariaDBDatabase()) }
