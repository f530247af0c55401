package envelope_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/emmansun/base64"

	"github.com/watermill-envelope/envelope"
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

// BenchmarkEncode writes a message. impl=ours reuses its buffer, impl=ours-fresh makes a new
// one each time, as impl=naive has to.
func BenchmarkEncode(b *testing.B) {
	for _, size := range benchSizes {
		e := benchEnvelope(size.headers, size.body)
		var buf []byte
		run := func(impl string, f func() error) { bench(b, size.name+"/impl="+impl, size.body, f) }
		run("sha256", func() error { sinkDigest = sha256.Sum256(e.Body); return nil })
		run("base64+sha256", func() error {
			sinkDigest = sha256.Sum256(e.Body)
			buf = base64.StdEncoding.AppendEncode(buf[:0], e.Body)
			return nil
		})
		run("ours", func() (err error) { buf, err = e.AppendWire(buf[:0]); return err })
		run("ours-fresh", func() (err error) { sinkBytes, err = e.AppendWire(nil); return err })
		run("naive", func() (err error) { sinkBytes, err = naiveEncode(e); return err })
	}
}

// BenchmarkDecode reads a message and verifies its digest. impl=ours is ParseWire,
// impl=ours-into is ParseWireInto with a reused buffer.
func BenchmarkDecode(b *testing.B) {
	for _, size := range benchSizes {
		e := benchEnvelope(size.headers, size.body)
		data, err := e.AppendWire(nil)
		if err != nil {
			b.Fatal(err)
		}
		text := []byte(base64.StdEncoding.EncodeToString(e.Body))
		buf := make([]byte, len(e.Body))
		strict := base64.StdEncoding.Strict()
		run := func(impl string, f func() error) { bench(b, size.name+"/impl="+impl, size.body, f) }
		run("sha256", func() error { sinkDigest = sha256.Sum256(e.Body); return nil })
		run("base64+sha256", func() error {
			n, err := strict.Decode(buf, text)
			sinkDigest = sha256.Sum256(buf[:n])
			return err
		})
		run("base64+sha256+alloc", func() error {
			sinkBytes = make([]byte, len(e.Body))
			n, err := strict.Decode(sinkBytes, text)
			sinkDigest = sha256.Sum256(sinkBytes[:n])
			return err
		})
		run("ours-into", func() (err error) { sinkEnvelope, err = envelope.ParseWireInto(buf[:0], data); return err })
		run("ours", func() (err error) { sinkEnvelope, err = envelope.ParseWire(data); return err })
		run("naive", func() (err error) { sinkEnvelope, err = naiveDecode(data); return err })
	}
}

// The results go where the compiler cannot see that nobody reads them.
var (
	sinkBytes    []byte
	sinkDigest   [sha256.Size]byte
	sinkEnvelope *envelope.Envelope
)

func bench(b *testing.B, name string, bytes int, f func() error) {
	b.Run(name, func(b *testing.B) {
		b.SetBytes(int64(bytes))
		b.ReportAllocs()
		for b.Loop() {
			if err := f(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
