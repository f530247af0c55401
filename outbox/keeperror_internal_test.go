package outbox

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
)

func TestKeepError(t *testing.T) {
	long := strings.Repeat("x", MaxErrorBytes-1)
	for _, test := range []struct {
		rule string
		end  func() error
		want string
	}{
		{"no error", func() error { return nil }, "nacked"},
		{"an error", func() error { return errors.New("no stock") }, "no stock"},
		{"an error without a text", func() error { return errors.New("") }, "nacked"},
		{"a panic", func() error { panic("cheese") }, "panic: cheese"},
		{"a panic with an error", func() error { panic(errors.New("cheese")) }, "panic: cheese"},
		{"at the limit", func() error { return errors.New(long + "y") }, long + "y"},
		{"over the limit", func() error { return errors.New(long + "yz") }, long + "y"},
		{"a character over the limit", func() error { return errors.New(long + "ö") }, long},
		{"the last of four bytes over the limit", func() error { return errors.New(long[2:] + "🧀") }, long[2:]},
		{"the last of four bytes within it", func() error { return errors.New(long[3:] + "🧀") }, long[3:] + "🧀"},
		{"no UTF-8", func() error { return errors.New("a\xffb") }, "a\uFFFDb"},
		{"no UTF-8 where it is cut", func() error { return errors.New(long + "\xff\xff") }, long},
		{"bytes that are no start where it is cut", func() error { return errors.New(long[3:] + "\x80\x80\x80\x80\x80") }, long[3:] + "\uFFFD"},
		{"NUL", func() error { return errors.New("a\x00b") }, "a\uFFFDb"},
		{"many NULs", func() error { return errors.New(strings.Repeat("\x00", MaxErrorBytes)) }, strings.Repeat("\uFFFD", MaxErrorBytes/3)},
	} {
		t.Run(strings.ReplaceAll(test.rule, " ", "-"), func(t *testing.T) {
			k := &kept{}
			msg := message.NewMessageWithContext(withKept(t.Context(), k), "1", nil)
			h := KeepError(func(*message.Message) ([]*message.Message, error) { return nil, test.end() })
			for range 2 { // the same when the message comes again
				func() {
					defer func() {
						if p := recover(); (p != nil) != strings.HasPrefix(test.rule, "a panic") {
							t.Errorf("panic: %v", p)
						}
					}()
					if _, err := h(msg); (err == nil) != (test.rule == "no error") {
						t.Errorf("error %v", err)
					}
				}()
				if got := k.String(); got != test.want || len(got) > MaxErrorBytes || !utf8.ValidString(got) {
					t.Errorf("kept %d bytes %.40q, want %d bytes %.40q", len(got), got, len(test.want), test.want)
				}
			}
		})
	}
	// The last error counts: a handler that is run again by a middleware may fail otherwise.
	k := &kept{}
	msg := message.NewMessageWithContext(withKept(t.Context(), k), "1", nil)
	for _, text := range []string{"first", "second"} {
		_, _ = KeepError(func(*message.Message) ([]*message.Message, error) { return nil, errors.New(text) })(msg)
	}
	if k.String() != "second" {
		t.Errorf("kept %q", k)
	}
}

func TestKeepErrorElsewhere(t *testing.T) {
	fail := errors.New("no stock")
	produced := []*message.Message{message.NewMessage("2", nil)}
	got, err := KeepError(func(*message.Message) ([]*message.Message, error) { return produced, fail })(message.NewMessage("1", nil))
	if err != fail || len(got) != 1 || got[0] != produced[0] {
		t.Errorf("%v, %v", got, err)
	}
}
