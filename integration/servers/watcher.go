package servers

import (
	"bytes"
	"os"
)

// A watcher copies output to a file and closes found at the first line that contains want.
// One goroutine writes to it at a time (os/exec sees that both streams are one writer).
type watcher struct {
	file  *os.File
	want  string
	found chan struct{}
	line  []byte // the end of what was written, while it is no whole line
	seen  bool
}

// maxLine bounds what is kept of a line without an end.
const maxLine = 64 << 10

func (w *watcher) Write(p []byte) (int, error) {
	if !w.seen {
		w.line = append(w.line, p...)
		if bytes.Contains(w.line, []byte(w.want)) {
			w.seen = true
			w.line = nil
			close(w.found)
		} else if i := bytes.LastIndexByte(w.line, '\n'); i >= 0 || len(w.line) > maxLine {
			w.line = append([]byte(nil), w.line[i+1:]...)
			if len(w.line) > maxLine {
				w.line = nil
			}
		}
	}
	return w.file.Write(p)
}
