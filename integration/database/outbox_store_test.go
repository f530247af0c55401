package database

import (
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite/outboxsuite"
)

func TestOutboxStoreOnPostgres(t *testing.T) { outboxsuite.RunStore(t, postgresDatabase()) }

func TestOutboxStoreOnMariaDB(t *testing.T) { outboxsuite.RunStore(t, mariaDBDatabase()) }
