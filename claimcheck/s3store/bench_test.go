package s3store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// BenchmarkCheckIn stores 100 bodies of 100 KiB on a server that answers after 10 ms: in one
// call, which makes one pack of them, and in a call for each.
func BenchmarkCheckIn(b *testing.B) {
	const n = 100
	bodies := make([]claimcheck.Body, n)
	for i := range bodies {
		bodies[i] = claimcheck.Body{Tenant: "acme", ID: fmt.Sprint("evt_", i), Data: []byte(strings.Repeat("x", 100<<10))}
	}
	for _, x := range []struct {
		name string
		size int // bodies in a call
	}{{"calls=1", n}, {"calls=100", 1}} {
		b.Run(x.name, func(b *testing.B) {
			s := newServer(b, false)
			s.delay = 10 * time.Millisecond
			checker, err := claimcheck.New(claimcheck.Config{Store: s.store(b)})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(n * 100 << 10)
			for b.Loop() {
				for i := 0; i < n; i += x.size {
					for _, claim := range checker.CheckIn(b.Context(), bodies[i:i+x.size]) {
						if claim.Err != nil {
							b.Fatal(claim.Err)
						}
					}
				}
				s.mu.Lock()
				clear(s.objects)
				s.mu.Unlock()
			}
			b.ReportMetric(float64(len(s.requests()))/float64(b.N), "requests/op")
		})
	}
}

// What was checked in is redeemed with one request from a pack of at most 64 KiB, and with two
// from any other.
func TestRequestsOfRedeem(t *testing.T) {
	for _, x := range []struct{ bodies, size, requests int }{{1, 1000, 1}, {3, 20 << 10, 1}, {100, 100 << 10, 2}, {1, 20 << 20, 2}} {
		s := newServer(t, false)
		checker, err := claimcheck.New(claimcheck.Config{Store: s.store(t)})
		if err != nil {
			t.Fatal(err)
		}
		bodies := make([]claimcheck.Body, x.bodies)
		for i := range bodies {
			bodies[i] = claimcheck.Body{Tenant: "acme", ID: fmt.Sprint("evt_", i), Data: []byte(strings.Repeat(fmt.Sprint(i%10), x.size))}
		}
		claims := checker.CheckIn(t.Context(), bodies)
		if n := len(s.requests()); n != 1 {
			t.Errorf("%d bodies of %d bytes were checked in with %d requests", x.bodies, x.size, n)
		}
		last := claims[len(claims)-1]
		got, err := checker.Redeem(t.Context(), last.Ref.String(), last.SHA256, last.Size)
		if err != nil || string(got) != string(bodies[len(bodies)-1].Data) {
			t.Errorf("%d bodies of %d bytes: %d bytes, %v", x.bodies, x.size, len(got), err)
		}
		if n := len(s.requests()); n != x.requests {
			t.Errorf("one of %d bodies of %d bytes was redeemed with %d requests, want %d", x.bodies, x.size, n, x.requests)
		}
	}
}
