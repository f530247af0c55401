package marshaler_test

import (
	"maps"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler"
)

// A transport that writes a prefix before the names of the user's metadata counts it for those,
// and not for our attributes nor for what a malformed message passes on.
func TestPerMetadata(t *testing.T) {
	malformed := (&marshaler.Wire{}).Open(marshaler.Received{Body: []byte("x"), Native: maps.All(map[string]string{"a": "1", "b": "2"})})
	for name, tt := range map[string]struct {
		msg  *message.Message
		user int64
	}{
		"no metadata":     {hook(), 0},
		"three of them":   {hooktest.With(hook(), "a", "1", "b", "", "c", "3"), 3},
		"in the JSON":     {hooktest.With(hook(), "content_type", "text/plain"), 0},
		"many":            {hooktest.With(hook(), "a", "", "b", "", "c", "", "d", "", "e", "", "f", "", "g", "", "h", ""), 8},
		"passed on as is": {malformed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := marshaler.Wire{Native: anything, MaxMessageBytes: 1 << 20}
			before := w.Size(tt.msg, "")
			const prefix = 10_000 // which no other part of the bound of Fits makes up for
			w.PerMetadata = prefix
			after := w.Size(tt.msg, "")
			if got := after.Inline - before.Inline; got != prefix*tt.user {
				t.Errorf("%d bytes more, want %d", got, prefix*tt.user)
			}
			if after.Attributes-before.Attributes != prefix*tt.user || after.Claim-before.Claim != prefix*tt.user {
				t.Errorf("attributes and claim: %+v, want %d bytes for each of %d more than %+v", after, prefix, tt.user, before)
			}
			w.MaxMessageBytes = after.Inline - 1
			if w.Fits(tt.msg) {
				t.Error("fits into one byte less than it takes")
			}
		})
	}
}

// A malformed message keeps attributes under the names that they have on the wire.
func TestOpenAsCame(t *testing.T) {
	r := marshaler.Received{
		Body:   []byte(hookJSON),
		Native: maps.All(map[string]string{"a": "1"}),
		AsCame: maps.All(map[string]string{"x:a": "1"}),
	}
	w := marshaler.Wire{Native: anything, MaxMessageBytes: 1 << 20}
	if msg := w.Open(r); msg.Metadata["a"] != "1" || msg.Metadata["x:a"] != "" {
		t.Errorf("opened with %v", msg.Metadata)
	}
	r.Body = []byte("x")
	if msg := w.Open(r); msg.Metadata["a"] != "" || msg.Metadata["x:a"] != "1" {
		t.Errorf("malformed with %v", msg.Metadata)
	}
	r.AsCame = maps.All(map[string]string{"ankusa_message_version": "1"})
	r.Fallback = func() (*message.Message, error) { t.Error("asked about a message of ours"); return nil, nil }
	w.Open(r)
}
