package envelope_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/emmansun/base64"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/sidebyside"
)

// benchEnvelope is a webhook with the given number of headers and body bytes; every field
// that a webhook usually has is set.
func benchEnvelope(headers, body int) *envelope.Envelope {
	random := rand.New(rand.NewPCG(1, 2))
	e := &envelope.Envelope{
		ID: "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10", SourceID: "github", TenantID: "acme",
		ReceivedAt: time.UnixMilli(1737500000000), ContentType: "application/json",
		DedupeKey: "72d3162e-cc78-11e3-81ab-4c9367dc0958", Instance: "default", Region: "eu-west-1",
		Verification: envelope.Verification{Status: envelope.VerificationOK},
		Traceparent:  "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Body:         make([]byte, body),
	}
	for i := range e.Body {
		e.Body[i] = byte(random.Uint32())
	}
	for i := range headers {
		e.Headers = append(e.Headers, envelope.Header{
			Name:  fmt.Sprintf("x-github-header-%d", i),
			Value: fmt.Sprintf("a value of thirty-two bytes, %04d", i),
		})
	}
	return e
}

var benchSizes = []struct {
	name          string
	headers, body int
}{
	{"body=64KiB", 16, 64 << 10},
	{"body=1KiB", 16, 1 << 10},
}

// encoders write e: ours into a reused buffer, ours-fresh into a new one each time, as naive
// has to. sha256 and base64+sha256 are the least that anybody must do.
func encoders(e *envelope.Envelope) []sidebyside.Way {
	var buf []byte
	return []sidebyside.Way{
		{Name: "sha256", F: func() error { sinkDigest = sha256.Sum256(e.Body); return nil }},
		{Name: "base64+sha256", F: func() error {
			sinkDigest = sha256.Sum256(e.Body)
			buf = base64.StdEncoding.AppendEncode(buf[:0], e.Body)
			return nil
		}},
		{Name: "ours", F: func() (err error) { buf, err = e.AppendWire(buf[:0]); return err }},
		{Name: "ours-fresh", F: func() (err error) { sinkBytes, err = e.AppendWire(nil); return err }},
		{Name: "naive", F: func() (err error) { sinkBytes, err = naiveEncode(e); return err }},
	}
}

// decoders read e and verify its digest: ours is ParseWire, ours-into is ParseWireInto a
// reused buffer.
func decoders(e *envelope.Envelope) []sidebyside.Way {
	data := must(e.AppendWire(nil))
	text := []byte(base64.StdEncoding.EncodeToString(e.Body))
	buf := make([]byte, len(e.Body))
	strict := base64.StdEncoding.Strict()
	return []sidebyside.Way{
		{Name: "sha256", F: func() error { sinkDigest = sha256.Sum256(e.Body); return nil }},
		{Name: "base64+sha256", F: func() error {
			n, err := strict.Decode(buf, text)
			sinkDigest = sha256.Sum256(buf[:n])
			return err
		}},
		{Name: "base64+sha256+alloc", F: func() error {
			sinkBytes = make([]byte, len(e.Body))
			n, err := strict.Decode(sinkBytes, text)
			sinkDigest = sha256.Sum256(sinkBytes[:n])
			return err
		}},
		{Name: "ours-into", F: func() (err error) { sinkEnvelope, err = envelope.ParseWireInto(buf[:0], data); return err }},
		{Name: "ours", F: func() (err error) { sinkEnvelope, err = envelope.ParseWire(data); return err }},
		{Name: "naive", F: func() (err error) { sinkEnvelope, err = naiveDecode(data); return err }},
	}
}

func BenchmarkEncode(b *testing.B) { benchEach(b, encoders) }

func BenchmarkDecode(b *testing.B) { benchEach(b, decoders) }

func benchEach(b *testing.B, impls func(*envelope.Envelope) []sidebyside.Way) {
	for _, size := range benchSizes {
		for _, impl := range impls(benchEnvelope(size.headers, size.body)) {
			b.Run(size.name+"/impl="+impl.Name, func(b *testing.B) {
				b.SetBytes(int64(size.body))
				b.ReportAllocs()
				for b.Loop() {
					if err := impl.F(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkSideBySide runs all rows by turns and reports the median time of each, so that
// their ratios hold on a machine that is busy with other things.
func BenchmarkSideBySide(b *testing.B) {
	for _, size := range benchSizes {
		e := benchEnvelope(size.headers, size.body)
		b.Run("encode/"+size.name, func(b *testing.B) { sidebyside.Run(b, encoders(e), 64<<10/size.body) })
		b.Run("decode/"+size.name, func(b *testing.B) { sidebyside.Run(b, decoders(e), 64<<10/size.body) })
		b.Run("message/"+size.name, func(b *testing.B) { sidebyside.Run(b, messages(e), 64<<10/size.body) })
	}
}

// The results go where the compiler cannot see that nobody reads them.
var (
	sinkBytes    []byte
	sinkDigest   [sha256.Size]byte
	sinkEnvelope *envelope.Envelope
)
