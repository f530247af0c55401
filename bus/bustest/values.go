package bustest

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/bus"
)

// maxOutboxType is the most bytes of a type that an outbox table has room for.
const maxOutboxType = 64

// name checks a message type.
func (w *walker) name(messageType string) {
	switch {
	case messageType == "":
		w.add(Name, "", "the message type is empty")
	case len(messageType) > maxOutboxType:
		w.add(Name, "", fmt.Sprintf("the message type has %d bytes, an outbox table room for %d", len(messageType), maxOutboxType))
	case !utf8.ValidString(messageType):
		w.add(Name, "", "the message type is not UTF-8")
	}
}

// roundTrip writes and reads a message.
func roundTrip[M bus.Message](w *walker, sample M) {
	e, err := bus.New(uuid.Nil, sample)
	if err != nil {
		w.add(Unencodable, "", err.Error())
		return
	}
	if escapesHTML(e.Payload) {
		w.add(Escaped, "", `a MarshalJSON writes \u003c, \u003e or \u0026`)
	}
	back, err := bus.Decode[M](e)
	if err != nil {
		w.add(Lossy, "", "what is written cannot be read: "+err.Error())
		return
	}
	if again, err := bus.New(uuid.Nil, back); err != nil || !bytes.Equal(again.Payload, e.Payload) {
		w.add(Lossy, "", "what is read is not what was written, in "+fmt.Sprint(len(e.Payload))+" bytes of JSON")
	}
}

// escapesHTML reports whether there is such an escape sequence in JSON text.
func escapesHTML(payload []byte) bool {
	text := string(payload)
	for {
		i := strings.IndexByte(text, '\\')
		if i < 0 {
			return false
		}
		for _, sequence := range []string{`\u003c`, `\u003e`, `\u0026`} {
			if strings.HasPrefix(text[i:], sequence) {
				return true
			}
		}
		text = text[i+len(`\\`):]
	}
}
