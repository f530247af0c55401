package suite

import (
	"log/slog"
	"strings"
	"sync"
)

// A LogBook is what was logged, as text that a test can read. The zero value is empty; any
// number of goroutines may use it.
type LogBook struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements [io.Writer].
func (b *LogBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns everything that was written so far.
func (b *LogBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Logger returns a logger that writes into b, from level info on.
func (b *LogBook) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }
