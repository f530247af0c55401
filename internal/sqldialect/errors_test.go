package sqldialect_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/watermill-envelope/envelope/internal/sqldialect"
)

func TestRefusal(t *testing.T) {
	for _, test := range []struct {
		d         sqldialect.Dialect
		err       error
		want      string
		duplicate bool
	}{
		{postgres, nil, "", false},
		{postgres, stateError("22P05"), "22P05", false},
		{postgres, fmt.Errorf("exec: %w", stateError("23505")), "23505", true},
		{postgres, errors.Join(errors.New("x"), stateError("23514")), "23514", false},
		{postgres, stateError("42P01"), "", false},
		{postgres, stateError("40001"), "", false},
		{postgres, errors.New("23505"), "", false},
		{mysql, errors.New("Error 1062 (23000): Duplicate entry"), "1062", true},
		{mysql, fmt.Errorf("exec: %w", errors.New("Error 1406 (22001): Data too long")), "1406", false},
		{mysql, errors.New("Error 4025 (23000): CONSTRAINT failed"), "4025", false},
		{mysql, errors.New("Error 1213 (40001): Deadlock"), "", false},
		{mysql, stateError("23505"), "", false},
		{sqlite, codeError(19 | 8<<8), "2067", true},
		{sqlite, codeError(19 | 6<<8), "1555", true},
		{sqlite, codeError(19 | 5<<8), "1299", false},
		{sqlite, codeError(5), "", false},
		{sqlite, errors.New("UNIQUE constraint failed: t.x"), "UNIQUE constraint failed", true},
		{sqlite, errors.New("CHECK constraint failed: x"), "CHECK constraint failed", false},
		{sqlite, errors.New("database is locked"), "", false},
	} {
		if got := test.d.Refusal(test.err); got != test.want || test.d.IsDuplicate(test.err) != test.duplicate {
			t.Errorf("%v, %v: %q, duplicate %v", test.d, test.err, got, test.d.IsDuplicate(test.err))
		}
	}
}
