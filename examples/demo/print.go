package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// width is how wide the demo prints.
const width = 100

// A printer writes the report of the demo.
type printer struct {
	w     io.Writer
	color bool
	err   error
}

func newPrinter(w io.Writer) *printer {
	p := &printer{w: w}
	if f, ok := w.(*os.File); ok && os.Getenv("NO_COLOR") == "" {
		info, err := f.Stat()
		p.color = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *printer) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(p.w, format, args...); err != nil && p.err == nil {
		p.err = err
	}
}

const (
	bold  = "1"
	red   = "31"
	green = "32"
)

func (p *printer) paint(code, s string) string {
	if !p.color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// line prints one labelled line of a hook.
func (p *printer) line(label, format string, args ...any) {
	p.printf("   %-9s "+format+"\n", append([]any{label}, args...)...)
}

func (p *printer) title(n int, title string) { p.printf("\n%d. %s\n", n, p.paint(bold, title)) }

func (p *printer) sent(t *trip) {
	p.line("in", "POST %s  %s  %s  %d headers -> %d", t.request.path,
		t.request.get("Content-Type"), size(t.request.body), len(t.request.headers()), t.status)
}

// trip prints where a hook was, and whether it was the same everywhere.
func (p *printer) trip(t *trip, checks []check) {
	p.line("kafka", "%s[%d]@%d  key %s  %d headers  %d bytes of JSON:", t.record.Topic,
		t.record.Partition, t.record.Offset, t.record.Key, len(t.record.Headers), len(t.record.Value))
	p.json(t.onKafka.shortened(t.record.Value))
	p.line("handler", "%s  %s  %s", t.seen.uuid, size(t.seen.payload), preview(t.seen.payload))
	p.line("", "ankusa_source_id=%s ankusa_tenant_id=%s ankusa_verification=%s and %d more",
		t.seen.metadata["ankusa_source_id"], t.seen.metadata["ankusa_tenant_id"],
		t.seen.metadata["ankusa_verification"], len(t.seen.metadata)-3)
	p.line("group 2", "%s  %s  %s", t.archived.uuid, size(t.archived.payload), preview(t.archived.payload))
	if t.key != "" {
		p.line("store", "%s", t.key)
		p.line("", "a ZIP file; its entry %s has %s", t.onKafka.claimID(), size(t.stored))
	}
	same := "the same"
	if !bytes.Equal(t.record.Value, t.withoutMetadata()) {
		same = "OTHER"
	}
	beside := fmt.Sprintf("%d headers, with %s", len(t.delivery.attributes), handledBy)
	switch t.to.beside {
	case attributes:
		beside = fmt.Sprintf("%d attributes  with %s in it,", len(t.delivery.attributes), handledBy)
	case nothing:
		beside = "with " + handledBy + " in it,"
	}
	p.line(t.to.name, "%s  %s  %s JSON", t.delivery.place, beside, same)
	if same == "OTHER" {
		p.json(t.onNext.shortened(t.delivery.body))
	}
	p.checks("equal", checks)
}

// checks prints one mark for each check, and below them what is wrong.
func (p *printer) checks(label string, checks []check) {
	var all []string
	for _, c := range checks {
		mark := p.paint(green, "✓")
		if len(c.wrong) > 0 {
			mark = p.paint(red, "✗")
		}
		all = append(all, strings.TrimSpace(mark+" "+c.name+" "+c.count))
	}
	p.line(label, "%s", strings.Join(all, "   "))
	for _, c := range checks {
		for _, w := range c.wrong {
			p.line("", "%s %s: %s", p.paint(red, "DIFFERS"), c.name, w)
		}
	}
}

// json prints a JSON text, broken between members to fit the width.
func (p *printer) json(text string) {
	const indent = 13
	line := ""
	for _, part := range members(text) {
		if line != "" && utf8.RuneCountInString(line+part) > width-indent {
			p.printf("%*s%s\n", indent, "", line)
			line = " "
		}
		line += part
	}
	p.printf("%*s%s\n", indent, "", line)
}

// members cuts a JSON text after the commas that are not inside strings.
func members(text string) []string {
	var parts []string
	start, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			quoted = !quoted
		case ',':
			if !quoted {
				parts = append(parts, text[start:i+1])
				start = i + 1
			}
		}
	}
	return append(parts, text[start:])
}

func size(b []byte) string {
	if len(b) == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", len(b))
}

// preview shows the start of a body on one line: as text where it is, else in hex.
func preview(b []byte) string {
	const shown = 40
	if len(b) == 0 {
		return "(empty)"
	}
	if !utf8.Valid(b) {
		if len(b) > 10 {
			return fmt.Sprintf("% x...", b[:10])
		}
		return fmt.Sprintf("% x", b)
	}
	var s strings.Builder
	for _, r := range string(b) {
		if s.Len() >= shown {
			return s.String() + "..."
		}
		if unicode.IsControl(r) {
			r = ' '
		}
		s.WriteRune(r)
	}
	return s.String()
}
