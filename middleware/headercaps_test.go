package middleware_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// A sink keeps the messages that it is given.
type sink struct {
	err    error
	calls  int
	given  []*message.Message
	closed int
}

func (s *sink) Publish(_ string, messages ...*message.Message) error {
	s.calls++
	s.given = messages
	return s.err
}

func (s *sink) Close() error {
	s.closed++
	return nil
}

// A headerCounter counts what is dropped, and by call.
type headerCounter struct{ calls []string }

func (c *headerCounter) HeadersDropped(reason string, n int) {
	c.calls = append(c.calls, reason+strings.Repeat("!", n))
}

func withHeaders(text string, keysAndValues ...string) *message.Message {
	msg := open("body", append([]string{"ankusa_source_id", "github", "ankusa_headers", text}, keysAndValues...)...)
	if _, has := msg.Metadata["ankusa_id"]; !has {
		msg.Metadata["ankusa_id"] = msg.UUID
	}
	return msg
}

func TestHeaderCaps(t *testing.T) {
	const unchanged = "unchanged" // msg itself is passed on
	small := envelope.ForwardOptions{MaxHeaders: 1, MaxHeaderBytes: 4}
	sealed := `{"v":1,"id":"1","source_id":"github","received_at":1,"size":0,"headers":{"cookie":"s","a":"1"},"body_base64":""}`
	tests := []struct {
		rule    string
		caps    hookmw.HeaderCaps
		msg     *message.Message
		want    string
		dropped envelope.Dropped
	}{
		{rule: "no metadata", msg: message.NewMessage("1", nil), want: unchanged},
		{rule: "nil metadata", msg: &message.Message{UUID: "1"}, want: unchanged},
		{rule: "no headers", msg: open("body", "ankusa_id", "x"), want: unchanged},
		{rule: "none, as text", msg: withHeaders(`{}`), want: unchanged},
		{rule: "nothing to do", msg: withHeaders(`{"a":"1","b":"2"}`), want: unchanged},
		{rule: "never forwarded", msg: withHeaders(`{"authorization":"s","a":"1"}`), want: `{"a":"1"}`},
		{rule: "upper case", msg: withHeaders(`{"A":"1"}`), want: `{"a":"1"}`},
		{rule: "nothing is left: no entry", msg: withHeaders(`{"cookie":"s"}`)},
		{
			rule: "both caps", caps: hookmw.HeaderCaps{Forward: small}, msg: withHeaders(`{"a":"too large","b":"2","c":"3","d":"4"}`),
			want: `{"b":"2"}`, dropped: envelope.Dropped{Count: 2, Bytes: 1},
		},
		{
			rule: "a value of 1 MiB", msg: withHeaders(`{"a":"1","b":"` + strings.Repeat("x", 1<<20) + `"}`),
			want: `{"a":"1"}`, dropped: envelope.Dropped{Bytes: 1},
		},
		{
			rule: "one source has rules of its own",
			caps: hookmw.HeaderCaps{For: func(source string) envelope.ForwardOptions {
				if source != "github" {
					return envelope.ForwardOptions{}
				}
				return envelope.ForwardOptions{Mode: envelope.ForwardAllowList, Allow: []string{"b"}}
			}},
			msg: withHeaders(`{"a":"1","b":"2"}`), want: `{"b":"2"}`,
		},
		{
			rule: "For takes the place of Forward",
			caps: hookmw.HeaderCaps{Forward: small, For: func(string) envelope.ForwardOptions { return envelope.ForwardOptions{} }},
			msg:  withHeaders(`{"a":"1","b":"too large"}`), want: unchanged,
		},
		{
			rule: "but not of its Never",
			caps: hookmw.HeaderCaps{
				Forward: envelope.ForwardOptions{Never: []string{"a"}},
				For:     func(string) envelope.ForwardOptions { return envelope.ForwardOptions{} },
			},
			msg: withHeaders(`{"a":"1","b":"2"}`), want: `{"b":"2"}`,
		},
		{
			rule: "and both have a Never",
			caps: hookmw.HeaderCaps{
				Forward: envelope.ForwardOptions{Never: []string{"a"}},
				For:     func(string) envelope.ForwardOptions { return envelope.ForwardOptions{Never: []string{"C"}} },
			},
			msg: withHeaders(`{"a":"1","b":"2","c":"3"}`), want: `{"b":"2"}`,
		},
		{rule: "a derived message keeps headers, so they count", msg: withHeaders(`{"cookie":"s","a":"1"}`, "ankusa_id", "the cause"), want: `{"a":"1"}`},
		{rule: "without an envelope headers are not sent", msg: open("body", "ankusa_headers", `{"cookie":"s"}`), want: unchanged},
		{rule: "a malformed message", msg: withHeaders(`{"cookie":"s"}`, "envelope_malformed", "invalid_json"), want: unchanged},
		{rule: "not JSON: sealing refuses it", msg: withHeaders(`{"cookie":"s"`), want: unchanged},
		{rule: "not of strings, and none are forwarded", msg: withHeaders(`{"cookie":1}`), caps: hookmw.HeaderCaps{Forward: envelope.ForwardOptions{Mode: envelope.ForwardNone}}, want: unchanged},
		{rule: "received without being opened", msg: message.NewMessage("1", []byte(sealed)), want: `{"a":"1"}`},
		{rule: "received so, and broken", msg: message.NewMessage("1", []byte(sealed[1:])), want: unchanged},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			if strings.HasPrefix(tt.rule, "received") {
				tt.msg.Metadata["ankusa_message_version"] = "1"
			}
			type key struct{}
			tt.msg.SetContext(context.WithValue(context.Background(), key{}, "kept"))
			before := maps.Clone(tt.msg.Metadata)
			var told []envelope.Dropped
			tt.caps.Dropped = func(msg *message.Message, d envelope.Dropped) {
				if told = append(told, d); msg != tt.msg {
					t.Error("told of another message")
				}
			}
			counter := new(headerCounter)
			tt.caps.Observer = counter
			if err := tt.caps.Validate(); err != nil {
				t.Fatal(err)
			}
			s := new(sink)
			other := open("{}")
			batch := []*message.Message{other, tt.msg}
			if err := tt.caps.WrapPublisher(s).Publish("hooks", batch...); err != nil {
				t.Fatal(err)
			}
			if s.calls != 1 || len(s.given) != 2 || s.given[0] != other || batch[1] != tt.msg {
				t.Fatalf("%d calls, the last with %v; the slice of the caller %v", s.calls, s.given, batch)
			}
			if !maps.Equal(tt.msg.Metadata, before) {
				t.Error("the message of the caller was changed")
			}
			got := s.given[1]
			if text, has := got.Metadata["ankusa_headers"]; has && text == "" {
				t.Error("an entry without a value")
			}
			switch {
			case tt.want == unchanged:
				if got != tt.msg {
					t.Errorf("published a copy with %v", got.Metadata)
				}
			case got == tt.msg:
				t.Error("published the message of the caller")
			case got.Metadata["ankusa_headers"] != tt.want, got.UUID != tt.msg.UUID, got.Context().Value(key{}) != "kept":
				t.Errorf("published %s %v, want the headers %s", got.UUID, got.Metadata, tt.want)
			case before["ankusa_message_version"] == "":
				delete(before, "ankusa_headers")
				delete(got.Metadata, "ankusa_headers")
				if !maps.Equal(got.Metadata, before) || string(got.Payload) != "body" {
					t.Errorf("published %q with %v", got.Payload, got.Metadata)
				}
			}
			var wantTold []envelope.Dropped
			var wantCalls []string
			if tt.dropped != (envelope.Dropped{}) {
				wantTold = []envelope.Dropped{tt.dropped}
			}
			if n := tt.dropped.Count; n > 0 {
				wantCalls = append(wantCalls, "count"+strings.Repeat("!", n))
			}
			if n := tt.dropped.Bytes; n > 0 {
				wantCalls = append(wantCalls, "bytes"+strings.Repeat("!", n))
			}
			if !slices.Equal(told, wantTold) || !slices.Equal(counter.calls, wantCalls) {
				t.Errorf("told %+v, counted %v; want %+v, %v", told, counter.calls, wantTold, wantCalls)
			}
		})
	}
}

// What is published is what is counted: a publish that fails is tried again.
func TestHeaderCapsCountWhatIsPublished(t *testing.T) {
	counter := new(headerCounter)
	down := &sink{err: errors.New("connection refused")}
	pub := hookmw.HeaderCaps{Forward: envelope.ForwardOptions{MaxHeaders: 1}, Observer: counter}.WrapPublisher(down)
	msg := withHeaders(`{"a":"1","b":"2","c":"3"}`)
	if err := pub.Publish("hooks", msg); err != down.err || len(counter.calls) != 0 {
		t.Errorf("error %v, counted %v", err, counter.calls)
	}
	down.err = nil
	if err := pub.Publish("hooks", msg, msg); err != nil || !slices.Equal(counter.calls, []string{"count!!", "count!!"}) {
		t.Errorf("error %v, counted %v", err, counter.calls)
	}
}

// What a stock subscriber received is sent with the headers that are left, once it is opened.
func TestHeaderCapsOfASealedMessage(t *testing.T) {
	sealed := open(`{"v":1,"id":"1","source_id":"github","received_at":1,"size":4,"headers":{"cookie":"s","a":"1"},"body_base64":"Ym9keQ=="}`,
		"ankusa_message_version", "1", "k", "v")
	sealed.UUID = "1"
	b := new(broker)
	if err := (hookmw.HeaderCaps{}).WrapPublisher(b).Publish("hooks", sealed); err != nil {
		t.Fatal(err)
	}
	got := b.receive(t, 0)
	if got.Metadata["ankusa_headers"] != `{"a":"1"}` || got.UUID != "1" || string(got.Payload) != "body" || got.Metadata["k"] != "v" {
		t.Errorf("sent %s %q with %v", got.UUID, got.Payload, got.Metadata)
	}
}

// Headers that are not what they should be are refused where a message is sealed, and nothing is sent.
func TestHeaderCapsLeaveRefusalToSealing(t *testing.T) {
	b := &broker{Marshaler: kafkawire.Marshaler{}}
	err := hookmw.HeaderCaps{}.WrapPublisher(b).Publish("hooks", withHeaders(`{"a":"1"},"v":9`))
	var e *envelope.Error
	if !errors.As(err, &e) || e.Field != "ankusa_headers" || len(b.records) != 0 {
		t.Errorf("error %v, %d records", err, len(b.records))
	}
}

func TestHeaderCapsPublisher(t *testing.T) {
	named := new(namedBroker)
	pub := hookmw.HeaderCaps{}.WrapPublisher(named)
	if got := pub.(interface{ String() string }).String(); got != "the broker" {
		t.Errorf("name %q", got)
	}
	for range 2 {
		if err := pub.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := pub.Publish("hooks", open("{}")); !errors.Is(err, marshaler.ErrClosed) || named.closed != 1 {
		t.Errorf("after Close: %v, closed %d times", err, named.closed)
	}
}

func TestHeaderCapsValidate(t *testing.T) {
	err := hookmw.HeaderCaps{Forward: envelope.ForwardOptions{Mode: 7, MaxHeaders: -1, MaxHeaderBytes: -2}}.Validate()
	if err == nil || len(strings.Split(err.Error(), "\n")) != 3 {
		t.Errorf("Validate: %v, want all three mistakes", err)
	}
}

// Nothing to do costs nothing but the walk.
func TestHeaderCapsAllocate(t *testing.T) {
	pub := hookmw.HeaderCaps{}.WrapPublisher(new(sink))
	messages := []*message.Message{withHeaders(`{"a":"1","b":"2"}`), open("{}")}
	if n := testing.AllocsPerRun(100, func() { _ = pub.Publish("hooks", messages...) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
