package claimcheck_test

import (
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// BenchmarkPack makes a pack of 16 MiB and reads it once, as a store does, beside the least
// that anybody must do: a digest, a CRC and one copy of the same bytes. "both" does them in
// turn, so that whatever else the machine does is shared, and reports the speed of ours in
// percent of the least's.
func BenchmarkPack(b *testing.B) {
	const size = 16 << 20
	to := make([]byte, 1<<20)
	for _, n := range []int{1, 100} {
		bodies := make([]claimcheck.Body, n)
		for i := range bodies {
			bodies[i] = claimcheck.Body{Tenant: "acme", ID: fmt.Sprint("evt_", i), Data: pattern(i, size/n)}
		}
		known := slices.Clone(bodies)
		for i := range known {
			known[i].SHA256 = digestOf(known[i].Data)
		}
		first := mustRef(b, packID)
		pack := func(bodies []claimcheck.Body) func() {
			return func() {
				p, err := claimcheck.NewPack(first, bodies)
				if err != nil {
					b.Fatal(err)
				}
				for obj := p.Object(); err == nil; {
					_, err = obj.Read(to)
				}
			}
		}
		least := func() {
			for i := range bodies {
				data := bodies[i].Data
				sha256.Sum256(data)
				crc32.ChecksumIEEE(data)
				for len(data) > 0 {
					data = data[copy(to, data):]
				}
			}
		}
		for _, impl := range []struct {
			name string
			f    func()
		}{{"ours", pack(bodies)}, {"sha256+crc32+copy", least}, {"ours-known-digests", pack(known)}} {
			b.Run(fmt.Sprintf("bodies=%d/impl=%s", n, impl.name), func(b *testing.B) {
				b.SetBytes(size)
				for b.Loop() {
					impl.f()
				}
			})
		}
		b.Run(fmt.Sprintf("bodies=%d/impl=both", n), func(b *testing.B) {
			var ours, others time.Duration
			for f := pack(bodies); b.Loop(); {
				begin := time.Now()
				f()
				middle := time.Now()
				least()
				ours, others = ours+middle.Sub(begin), others+time.Since(middle)
			}
			b.ReportMetric(100*others.Seconds()/ours.Seconds(), "%of-least")
		})
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
