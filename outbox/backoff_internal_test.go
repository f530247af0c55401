package outbox

import (
	"math"
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	const limit = 300 * time.Second
	for _, test := range []struct {
		base, limit time.Duration
		attempts    int64
		want        time.Duration
		why         string
	}{
		{time.Second, limit, 0, time.Second, "the first failure"},
		{time.Second, limit, 1, 2 * time.Second, "the second"},
		{time.Second, limit, 4, 16 * time.Second, "the fifth"},
		{time.Second, limit, 8, 256 * time.Second, "the last below the limit"},
		{time.Second, limit, 9, limit, "over the limit"},
		{time.Second, 256 * time.Second, 8, 256 * time.Second, "just the limit"},
		{time.Second, limit, 31, limit, "the last power"},
		{time.Nanosecond, limit, 31, 1 << 31, "the last power, below the limit"},
		{time.Nanosecond, limit, 32, math.MaxUint32, "the greatest factor of 32 bits"},
		{time.Nanosecond, limit, math.MaxInt64, math.MaxUint32, "as many as there can be"},
		{time.Second, limit, -3, time.Second, "a count that is none"},
		{math.MaxInt64, math.MaxInt64, 31, math.MaxInt64, "beyond 64 bits"},
		{time.Hour, limit, 0, limit, "a base over the limit"},
		{0, limit, 5, 0, "no base"},
	} {
		if got := backoff(test.base, test.limit, test.attempts, false); got != test.want {
			t.Errorf("%s: %v, want %v", test.why, got, test.want)
		}
		for range 100 {
			if got := backoff(test.base, test.limit, test.attempts, true); got < 0 || got > test.want {
				t.Errorf("%s: %v with jitter, want 0 to %v", test.why, got, test.want)
			}
		}
	}
	// Both ends are possible.
	seen := make(map[time.Duration]bool)
	for range 1000 {
		seen[backoff(1, limit, 1, true)] = true
	}
	if len(seen) != 3 {
		t.Errorf("delays of 0 to 2 ns: %v", seen)
	}
}
