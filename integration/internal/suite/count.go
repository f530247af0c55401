// Package suite holds the flows that run against embedded and real brokers alike, and what
// they share.
package suite

import (
	"fmt"
	"os"
	"strconv"
)

// ScaleVariable is the environment variable that [Count] scales by: a number over 0 and up
// to 1. Unset means a tenth; `make soak` sets 1.
const ScaleVariable = "ENVELOPE_SCALE"

// Count returns how many of something a test does when its full count is full: full times
// the scale, rounded up. It panics when the variable holds anything but a scale, so that a
// mistyped soak does not pass as one.
func Count(full int) int {
	scale := 0.1
	if text, ok := os.LookupEnv(ScaleVariable); ok && text != "" {
		var err error
		if scale, err = strconv.ParseFloat(text, 64); err != nil || !(scale > 0 && scale <= 1) {
			panic(fmt.Sprintf("suite: %s is %q, want a number over 0 and up to 1", ScaleVariable, text))
		}
	}
	n := int(float64(full) * scale)
	if float64(n) < float64(full)*scale {
		n++
	}
	return n
}
