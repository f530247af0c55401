package suite_test

import (
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

func TestCount(t *testing.T) {
	for _, c := range []struct {
		scale      string
		full, want int
		why        string
	}{
		{"", 1000, 100, "a tenth by default"},
		{"", 5, 1, "rounded up: a test always does something"},
		{"1", 1000, 1000, "a soak does all"},
		{"0.5", 3, 2, "rounded up"},
		{"0.1", 329, 33, "rounded up"},
		{"1", 0, 0, "nothing stays nothing"},
	} {
		t.Setenv(suite.ScaleVariable, c.scale)
		if got := suite.Count(c.full); got != c.want {
			t.Errorf("scale %q: Count(%d) = %d, want %d (%s)", c.scale, c.full, got, c.want, c.why)
		}
	}
}

func TestCountRefusesAnotherScale(t *testing.T) {
	for _, scale := range []string{"0", "-1", "1.5", "full", "NaN"} {
		t.Run(scale, func(t *testing.T) {
			t.Setenv(suite.ScaleVariable, scale)
			defer func() {
				if recover() == nil {
					t.Errorf("scale %q was taken", scale)
				}
			}()
			suite.Count(10)
		})
	}
}
