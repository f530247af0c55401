package main

import (
	"bytes"
	"log/slog"
	"regexp"
	"sync"
	"testing"
	"time"
)

var discard = slog.New(slog.DiscardHandler)

// lines is what a program prints while it runs.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// wait returns the first match, once it is there.
func (l *lines) wait(t *testing.T, pattern *regexp.Regexp) string {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for over := time.After(30 * time.Second); ; {
		l.mu.Lock()
		found := pattern.FindString(l.text.String())
		l.mu.Unlock()
		if found != "" {
			return found
		}
		select {
		case <-look.C:
		case <-over:
			t.Fatalf("%s was not printed:\n%s", pattern, l.text.String())
		}
	}
}
