package envelope_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/sidebyside"
)

// messages do what a marshaler does to a message with the body and headers of e, step by
// step. seal+open is all of it, into a new buffer of the right size; naive is
// encoding and decoding it as in the other benchmarks.
func messages(e *envelope.Envelope) []sidebyside.Way {
	plain := e.Message()
	msg := must(envelope.Prepare(plain, envelope.Defaults{}))
	var o envelope.SealOptions
	sealed := must(envelope.Seal(nil, msg, o))
	buf := make([]byte, 0, len(sealed))
	return []sidebyside.Way{
		{Name: "prepare", F: func() (err error) { sinkMessage, err = envelope.Prepare(msg, envelope.Defaults{}); return err }},
		{Name: "size", F: func() error { sinkSize, _ = envelope.SealedSize(msg, o, ""); return nil }},
		{Name: "seal", F: func() (err error) { sinkBytes, err = envelope.Seal(buf, msg, o); return err }},
		{Name: "open", F: func() (err error) { sinkMessage, err = envelope.Open(sealed); return err }},
		{Name: "seal+open", F: func() error {
			prepared, err := envelope.Prepare(msg, envelope.Defaults{})
			if err != nil {
				return err
			}
			size, _ := envelope.SealedSize(prepared, o, "")
			if sinkBytes, err = envelope.Seal(make([]byte, 0, size), prepared, o); err != nil {
				return err
			}
			sinkMessage, err = envelope.Open(sinkBytes)
			return err
		}},
		{Name: "naive", F: func() (err error) {
			if sinkBytes, err = naiveEncode(e); err == nil {
				sinkEnvelope, err = naiveDecode(sinkBytes)
			}
			return err
		}},
	}
}

func BenchmarkMessage(b *testing.B) { benchEach(b, messages) }

var (
	sinkMessage *message.Message
	sinkSize    int64
)
