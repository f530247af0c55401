// Package sidebyside compares ways to do the same work on a machine that is busy with other
// things.
package sidebyside

import (
	"slices"
	"testing"
	"time"
)

// A Way is one way to do the work of a benchmark.
type Way struct {
	Name string
	F    func() error
}

// Run runs all ways by turns, batch times each, and reports the median time of each, so that
// their ratios hold.
func Run(b *testing.B, ways []Way, batch int) {
	b.Helper()
	times := make([][]time.Duration, len(ways))
	for b.Loop() {
		for i, way := range ways {
			start := time.Now()
			for range batch {
				if err := way.F(); err != nil {
					b.Fatal(err)
				}
			}
			times[i] = append(times[i], time.Since(start))
		}
	}
	b.ReportMetric(0, "ns/op") // of all ways together: it is not shown
	for i, way := range ways {
		slices.Sort(times[i])
		median := times[i][len(times[i])/2]
		b.ReportMetric(float64(median.Nanoseconds())/float64(batch), way.Name+"-ns")
	}
}
