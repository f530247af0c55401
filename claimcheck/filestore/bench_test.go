package filestore_test

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/memstore"
)

const packSize = 1 << 20

// BenchmarkPut stores packs of 1 MiB. The floor is what the disk takes: the same bytes written
// to a new file and synchronised, without a rename or any folder.
func BenchmarkPut(b *testing.B) {
	data := make([]byte, packSize)
	b.Run("floor", func(b *testing.B) {
		dir := b.TempDir()
		b.SetBytes(packSize)
		for i := 0; b.Loop(); i++ {
			f, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
			if err != nil {
				b.Fatal(err)
			}
			_, writeErr := f.Write(data)
			if syncErr, closeErr := f.Sync(), f.Close(); writeErr != nil || syncErr != nil || closeErr != nil {
				b.Fatal(writeErr, syncErr, closeErr)
			}
		}
	})
	s, _ := newStore(b)
	for name, store := range map[string]claimcheck.Store{"file": s, "memory": new(memstore.Store)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(packSize)
			b.ReportAllocs()
			for b.Loop() {
				if err := store.Put(ctx, newKey(b, "a", time.Now()), section(data)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkGet reads 1 MiB, and the 64 KiB that redeeming begins with. The floor is a file that
// is opened and read.
func BenchmarkGet(b *testing.B) {
	s, dir := newStore(b)
	key := newKey(b, "a", time.Now())
	if err := s.Put(ctx, key, section(make([]byte, packSize))); err != nil {
		b.Fatal(err)
	}
	name := filepath.Join(dir, filepath.FromSlash(key))
	for _, n := range []int64{64 << 10, packSize} {
		buf := make([]byte, n)
		b.Run("floor/"+strconv.FormatInt(n, 10), func(b *testing.B) {
			b.SetBytes(n)
			b.ReportAllocs()
			for b.Loop() {
				f, err := os.Open(name)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(f, buf); err != nil {
					b.Fatal(err)
				}
				f.Close()
			}
		})
		b.Run("file/"+strconv.FormatInt(n, 10), func(b *testing.B) {
			b.SetBytes(n)
			b.ReportAllocs()
			for b.Loop() {
				r, err := s.Get(ctx, key, 0, n)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(r, buf); err != nil {
					b.Fatal(err)
				}
				r.Close()
			}
		})
	}
}
