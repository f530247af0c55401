package memstore_test

import (
	"testing"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/memstore"
	"github.com/watermill-envelope/envelope/claimcheck/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		New: func(*testing.T) claimcheck.Store { return new(memstore.Store) },
	})
}
