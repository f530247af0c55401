package matrix

import (
	"fmt"
	"strings"
	"sync"
)

// A pair is a transport that messages went in by and one that they arrived on, as places in
// the table of ends.
type pair struct{ from, to int }

// A table holds what came of all pairs. Its methods may be called by several goroutines at once.
type table struct {
	names    []string
	messages int // of each pair

	mu     sync.Mutex
	cells  map[pair]*cell
	strays []string
	change chan struct{} // has room for one
}

type cell struct {
	seen  map[string]bool
	wrong []string // in the order of arrival
}

func newTable(names []string, messages int) *table {
	return &table{names: names, messages: messages, cells: map[pair]*cell{}, change: make(chan struct{}, 1)}
}

// arrived notes that a message arrived and what differs in it. What comes again does not count.
func (m *table) arrived(p pair, name string, wrong []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.cells[p]
	if c == nil {
		c = &cell{seen: map[string]bool{}}
		m.cells[p] = c
	}
	if c.seen[name] {
		return
	}
	c.seen[name] = true
	for _, w := range wrong {
		c.wrong = append(c.wrong, name+": "+w)
	}
	select {
	case m.change <- struct{}{}:
	default:
	}
}

// stray notes what arrived that cannot be told to have been sent.
func (m *table) stray(to int, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.strays = append(m.strays, fmt.Sprintf("? -> %s: %s", m.names[to], what))
}

// complete reports whether all messages of all pairs arrived.
func (m *table) complete() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for from := range m.names {
		for to := range m.names {
			if c := m.cells[pair{from, to}]; c == nil || len(c.seen) < m.messages {
				return false
			}
		}
	}
	return true
}

// ok reports whether all messages of all pairs arrived as they were sent.
func (m *table) ok() bool {
	if !m.complete() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.cells {
		if len(c.wrong) > 0 {
			return false
		}
	}
	return len(m.strays) == 0
}

// most bounds the lines about one pair.
const most = 8

// String is the table: "ok" for a pair without differences, "NO" for one with, "--" for one
// where messages are missing. What differs stands below, as pair, message and field.
func (m *table) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	width := 0
	for _, name := range m.names {
		width = max(width, len(name))
	}
	var head, rows, wrong strings.Builder
	fmt.Fprintf(&head, "%*s", width+3, "")
	for from, name := range m.names {
		fmt.Fprintf(&head, "%4d", from+1)
		fmt.Fprintf(&rows, "%2d %-*s", from+1, width, name)
		for to := range m.names {
			rows.WriteString("  " + m.cell(&wrong, pair{from, to}))
		}
		rows.WriteString("\n")
	}
	for _, s := range m.strays {
		wrong.WriteString(s + "\n")
	}
	text := head.String() + "\n" + rows.String()
	if wrong.Len() > 0 {
		text += "\n" + wrong.String()
	}
	return text
}

// cell is the mark of a pair. It writes to wrong what is wrong with it.
func (m *table) cell(wrong *strings.Builder, p pair) string {
	names := m.names[p.from] + " -> " + m.names[p.to]
	c := m.cells[p]
	if c == nil {
		c = &cell{}
	}
	for i, w := range c.wrong {
		if i == most {
			fmt.Fprintf(wrong, "%s: and %d more\n", names, len(c.wrong)-most)
			break
		}
		fmt.Fprintf(wrong, "%s: %s\n", names, w)
	}
	switch {
	case len(c.seen) < m.messages:
		fmt.Fprintf(wrong, "%s: %d of %d messages arrived\n", names, len(c.seen), m.messages)
		return "--"
	case len(c.wrong) > 0:
		return "NO"
	}
	return "ok"
}
