package envelope

// ForwardMode says which provider headers are forwarded.
type ForwardMode int

const (
	ForwardAll       ForwardMode = iota // all but the never-forwarded
	ForwardAllowList                    // those in ForwardOptions.Allow
	ForwardNone
)

// ForwardOptions are the rules of ForwardHeaders; the zero value forwards all within the default caps.
type ForwardOptions struct {
	Mode           ForwardMode
	Allow          []string // compared without regard to case
	Never          []string // in addition to the names that are never forwarded
	MaxHeaders     int      // 0: 64
	MaxHeaderBytes int      // names and values together; 0: 16,384
}

// Dropped counts the headers that a cap dropped.
type Dropped struct{ Count, Bytes int }

// ForwardHeaders applies the rules of forwarding to headers in order of arrival.
func ForwardHeaders(headers []Header, o ForwardOptions) (kept []Header, dropped Dropped) {
	panic("todo")
}

// ValidHeader reports an error naming the header when name or value has bytes that are refused at the door.
func ValidHeader(name, value string) error { panic("todo") }

// ValidTraceparent reports whether s is a W3C traceparent that a span context can be taken from.
func ValidTraceparent(s string) bool { panic("todo") }

// TruncateTracestate shortens a tracestate to at most 512 characters as W3C says.
func TruncateTracestate(s string) string { panic("todo") }
