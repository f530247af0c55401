package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"github.com/watermill-envelope/envelope"
)

// redact returns h without what o drops and with what o hashes; h itself stays as it is.
func redact(h http.Header, o *RequestOptions) http.Header {
	if len(o.DropHeaders) == 0 && len(o.HashHeaders) == 0 {
		return h
	}
	out := make(http.Header, len(h))
	for name, values := range h {
		same := func(n string) bool { return strings.EqualFold(n, name) }
		switch {
		case slices.ContainsFunc(o.DropHeaders, same):
		case slices.ContainsFunc(o.HashHeaders, same):
			hashed := make([]string, len(values))
			for i, v := range values {
				sum := sha256.Sum256([]byte(v))
				hashed[i] = "sha256:" + hex.EncodeToString(sum[:])
			}
			out[name] = hashed
		default:
			out[name] = values
		}
	}
	return out
}

// headerList returns h in the order of its lower-case names.
func headerList(h http.Header) []envelope.Header {
	n := 0
	names := make([]string, 0, len(h))
	for name, values := range h {
		names = append(names, name)
		n += len(values)
	}
	slices.SortFunc(names, compareFold)
	list := make([]envelope.Header, 0, n)
	for _, name := range names {
		for _, value := range h[name] {
			list = append(list, envelope.Header{Name: name, Value: value})
		}
	}
	return list
}

func validHeaders(list []envelope.Header) error {
	for _, h := range list {
		if err := envelope.ValidHeader(h.Name, h.Value); err != nil {
			return &Error{Code: CodeInvalidHeader, Err: err}
		}
	}
	return nil
}

// compareFold orders names by their bytes in lower case, and by themselves where these are
// the same.
func compareFold(a, b string) int {
	for i := range min(len(a), len(b)) {
		if x, y := lower(a[i]), lower(b[i]); x != y {
			return int(x) - int(y)
		}
	}
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func forward(list []envelope.Header, o envelope.ForwardOptions, report func(string, int)) []envelope.Header {
	kept, dropped := envelope.ForwardHeaders(list, o)
	if report != nil && dropped.Count > 0 {
		report("count", dropped.Count)
	}
	if report != nil && dropped.Bytes > 0 {
		report("bytes", dropped.Bytes)
	}
	return kept
}

// traceContext returns the trace context of h, or nothing when it has none that is valid:
// exactly one traceparent. Several tracestate headers are one list.
func traceContext(h http.Header) (traceparent, tracestate string) {
	parents := values(h, "Traceparent")
	if len(parents) != 1 || !envelope.ValidTraceparent(parents[0]) {
		return "", ""
	}
	return parents[0], envelope.TruncateTracestate(strings.Join(values(h, "Tracestate"), ","))
}

// values returns the values of a header without regard to the case of its name, also in a
// map that was not made by net/http. The canonical name goes before the others.
func values(h http.Header, name string) []string {
	if v := h[http.CanonicalHeaderKey(name)]; len(v) > 0 {
		return v
	}
	found, key := []string(nil), ""
	for k, v := range h {
		if len(v) > 0 && strings.EqualFold(k, name) && (found == nil || k < key) {
			found, key = v, k
		}
	}
	return found
}

// get returns the first value of a header, or "".
func get(h http.Header, name string) string {
	if v := values(h, name); len(v) > 0 {
		return v[0]
	}
	return ""
}

// text returns the first value of a header, or "" when there is none or it has bytes
// outside printable ASCII.
func text(h http.Header, name string) string {
	v := get(h, name)
	for i := range len(v) {
		if c := v[i]; (c < 0x20 || c > 0x7e) && c != '\t' {
			return ""
		}
	}
	return v
}
