package webhook

import (
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
)

// firstRead is the most that is allocated on the word of a Content-Length alone.
const firstRead = 64 << 10

// readBody reads the body of r to its end. Memory is taken as bytes arrive, never on the
// word of a Content-Length, and is accounted for in mem.
func readBody(r *http.Request, most int64, mem *reservation) ([]byte, error) {
	declared := r.ContentLength
	if declared > most {
		return nil, &BodyTooLargeError{Max: most}
	}
	if r.Body == nil || r.Body == http.NoBody {
		return []byte{}, nil
	}
	// One byte more than is expected finds the end of the body, or that it is too long,
	// without another allocation.
	limit := most
	if limit < math.MaxInt64 {
		limit++
	}
	size := int64(512)
	if declared >= 0 {
		size = min(declared, firstRead) + 1
	}
	size = min(size, limit)
	if !mem.take(size) {
		return nil, &Error{Code: CodeOverloaded}
	}
	buf := make([]byte, 0, size)
	for {
		if int64(len(buf)) == size {
			next := min(2*size, limit)
			if size <= declared && declared < next {
				next = declared + 1
			}
			if !mem.take(next) {
				return nil, &Error{Code: CodeOverloaded}
			}
			grown := make([]byte, len(buf), next)
			copy(grown, buf)
			buf = grown
			mem.give(size)
			size = next
		}
		n, err := r.Body.Read(buf[len(buf):size])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > most {
			return nil, &BodyTooLargeError{Max: most}
		}
		if err == io.EOF {
			return slices.Clip(buf), nil
		}
		if err != nil {
			return nil, bodyError(err)
		}
	}
}

func bodyError(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return &BodyTooLargeError{Max: tooLarge.Limit}
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &Error{Code: CodeBodyTimeout, Err: err}
	}
	return &Error{Code: CodeIncompleteBody, Err: err}
}

// A budget is the bytes that bodies in flight may take together.
type budget struct{ free atomic.Int64 }

// A reservation is the share of one request in a budget. A nil reservation takes whatever
// it is asked for. It is used by one goroutine at a time.
type reservation struct {
	from *budget
	held int64
}

// take reports whether n bytes were there to be taken; it never waits for them.
func (m *reservation) take(n int64) bool {
	if m == nil {
		return true
	}
	if m.from.free.Add(-n) < 0 {
		m.from.free.Add(n)
		return false
	}
	m.held += n
	return true
}

func (m *reservation) give(n int64) {
	if m == nil {
		return
	}
	m.held -= n
	m.from.free.Add(n)
}
