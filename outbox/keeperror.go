package outbox

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
)

// MaxErrorBytes is how much of an error's text is kept in last_error.
const MaxErrorBytes = 1024

// nacked is the last_error of a Nack that [KeepError] has left no text for.
const nacked = "nacked"

type errorKey struct{}

// A kept is where the text of a handler's error is left for the settling of its message.
type kept struct{ text atomic.Pointer[string] }

func (k *kept) String() string {
	if text := k.text.Load(); text != nil {
		return *text
	}
	return nacked
}

func withKept(ctx context.Context, k *kept) context.Context {
	return context.WithValue(ctx, errorKey{}, k)
}

// KeepError is a router middleware that leaves the text of the handler's error, or of what it
// panicked with, for the last_error of its event: a Nack, which is all that a router tells a
// [Subscriber], says nothing. Of the text at most [MaxErrorBytes] are kept, and what is no text
// is replaced.
//
// It goes outside of middleware that handles errors, such as Retry, so that it sees the one
// that remains. The text is stored in the table and shown to whoever reads it: an error must not
// quote what must not be kept. For messages of other subscribers the middleware does nothing.
func KeepError(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) (produced []*message.Message, err error) {
		k, ok := msg.Context().Value(errorKey{}).(*kept)
		if !ok {
			return h(msg)
		}
		defer func() {
			p := recover()
			switch {
			case p != nil:
				k.set(panicText(p))
				panic(p)
			case err != nil:
				k.set(err.Error())
			}
		}()
		return h(msg)
	}
}

func (k *kept) set(text string) {
	if text = errorText(text); text == "" {
		text = nacked
	}
	k.text.Store(&text)
}

func panicText(p any) string { return fmt.Sprintf("panic: %v", p) }

// errorText returns what of a text is kept: at most [MaxErrorBytes] of it, with U+FFFD in the
// place of bytes that are not UTF-8 and of NUL, which PostgreSQL takes for no text.
func errorText(text string) string {
	// One byte may become three of U+FFFD; none becomes fewer.
	truncated := text
	if len(truncated) > MaxErrorBytes {
		truncated = truncated[:MaxErrorBytes]
		for n := 1; n < utf8.UTFMax && n <= len(truncated); n++ {
			if c := truncated[len(truncated)-n]; utf8.RuneStart(c) {
				if !utf8.FullRuneInString(truncated[len(truncated)-n:]) {
					truncated = truncated[:len(truncated)-n]
				}
				break
			}
		}
	}
	truncated = strings.ReplaceAll(strings.ToValidUTF8(truncated, "\uFFFD"), "\x00", "\uFFFD")
	for len(truncated) > MaxErrorBytes {
		_, size := utf8.DecodeLastRuneInString(truncated)
		truncated = truncated[:len(truncated)-size]
	}
	return truncated
}

// asciiText returns text with ? for what is not ASCII, for a column that cannot hold more.
func asciiText(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return '?'
		}
		return r
	}, text)
}
