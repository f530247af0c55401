package outbox

import (
	"math"
	"math/rand/v2"
	"time"
)

// backoff returns how long an event waits that has failed, having failed attempts times before:
// base × 2^attempts, at most limit, and with jitter anything from 0 to that. From the 32nd
// failure on the factor is the greatest of 32 bits.
func backoff(base, limit time.Duration, attempts int64, jitter bool) time.Duration {
	factor := int64(math.MaxUint32)
	if attempts < 32 {
		factor = 1 << max(attempts, 0)
	}
	delay := limit
	if int64(base) <= int64(limit)/factor { // the product is within the limit, and no overflow
		delay = min(limit, base*time.Duration(factor))
	}
	if jitter {
		return time.Duration(rand.Uint64N(uint64(delay) + 1))
	}
	return delay
}
