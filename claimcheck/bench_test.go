package claimcheck_test

import (
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"io"
	"testing"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// BenchmarkPack makes a pack of 16 MiB and reads it once, as a store does, beside the least
// that anybody must do: a digest, a CRC and one copy of the same bytes.
func BenchmarkPack(b *testing.B) {
	const size = 16 << 20
	to := make([]byte, 1<<20)
	for _, n := range []int{1, 100} {
		bodies := make([]claimcheck.Body, n)
		for i := range bodies {
			bodies[i] = claimcheck.Body{Tenant: "acme", ID: fmt.Sprint("evt_", i), Data: pattern(i, size/n)}
		}
		first := mustRef(b, packID)
		read := func(b *testing.B, bodies []claimcheck.Body) {
			b.SetBytes(size)
			for b.Loop() {
				p, err := claimcheck.NewPack(first, bodies)
				if err != nil {
					b.Fatal(err)
				}
				for obj := p.Object(); ; {
					if _, err := obj.Read(to); err == io.EOF {
						break
					} else if err != nil {
						b.Fatal(err)
					}
				}
			}
		}
		b.Run(fmt.Sprintf("bodies=%d/impl=ours", n), func(b *testing.B) { read(b, bodies) })
		b.Run(fmt.Sprintf("bodies=%d/impl=sha256+crc32+copy", n), func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				for i := range bodies {
					data := bodies[i].Data
					sha256.Sum256(data)
					crc32.ChecksumIEEE(data)
					for len(data) > 0 {
						data = data[copy(to, data):]
					}
				}
			}
		})
		known := make([]claimcheck.Body, n)
		for i, body := range bodies {
			body.SHA256 = digestOf(body.Data)
			known[i] = body
		}
		b.Run(fmt.Sprintf("bodies=%d/impl=ours-known-digests", n), func(b *testing.B) { read(b, known) })
	}
}

func BenchmarkRedeem(b *testing.B) {
	store := &testStore{}
	c := newChecker(b, store)
	for _, size := range []int{1 << 10, 100 << 10, 16 << 20} {
		body := pattern(1, size)
		claim := checkIn(b, c, claimcheck.Body{Tenant: "acme", Data: body})[0]
		ref := claim.Ref.String()
		b.Run(fmt.Sprintf("body=%d/impl=ours", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				store.gets = store.gets[:0]
				if _, err := c.Redeem(b.Context(), ref, claim.SHA256, claim.Size); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("body=%d/impl=sha256+copy", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				to := make([]byte, size)
				copy(to, body)
				sha256.Sum256(to)
			}
		})
	}
}

func BenchmarkParseRef(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := claimcheck.ParseRef(ref); err != nil {
			b.Fatal(err)
		}
	}
}
