package peers_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	"github.com/watermill-envelope/envelope/claimcheck/s3store"
	"github.com/watermill-envelope/envelope/integration/peers"
	"github.com/watermill-envelope/envelope/integration/servers"
)

const packID = "01M39VMD8RA3C5HR4RBV670000"

// packs are the bodies of a pack that one read gets whole, and of one that takes two.
func packs() map[string][]claimcheck.Body {
	body := func(id, contentType string, at int64, data []byte) claimcheck.Body {
		b := claimcheck.Body{Tenant: "acme", ID: id, ContentType: contentType, Data: data}
		if at != 0 {
			b.ReceivedAt = time.UnixMilli(at)
		}
		return b
	}
	small := []claimcheck.Body{
		body("h-1", "", 0, nil),
		body("h-2", "application/json", 1737500000123, []byte("{}")),
		body("h-3", "text/plain; charset=utf-8", -1, []byte{0xff}),
		body("", "application/octet-stream", 1, allBytes()),
	}
	big := append(slices.Clone(small),
		body("h-5", "", 0, bytes.Repeat(allBytes(), 12_288)), // 3 MiB
		body("h-6", "", 0, []byte("behind the large one")),
	)
	return map[string][]claimcheck.Body{"small": small, "big": big, "one byte": {body("h", "", 0, []byte{0})}}
}

func stores(t *testing.T) map[string]claimcheck.Store {
	t.Helper()
	files, err := filestore.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server, err := servers.StartVersitygw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, server)
	objects, err := s3store.New(s3store.Config{Client: server.Client(), Bucket: server.Bucket()})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]claimcheck.Store{"filestore": files, "s3store": objects}
}

// A builder that knows only the description of the layout makes the very bytes that we make,
// and whoever made the object, we redeem all of it, from files and from a real S3 server.
func TestPacksByHand(t *testing.T) {
	first, err := claimcheck.NewRef("acme", packID)
	if err != nil {
		t.Fatal(err)
	}
	stores := stores(t)
	for name, bodies := range packs() {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pack.zip")
			var claims []peers.PackClaim
			for _, b := range bodies {
				c := peers.PackClaim{ID: b.ID, Body: b.Data}
				if b.ContentType != "" {
					c.ContentType = &b.ContentType
				}
				if !b.ReceivedAt.IsZero() {
					c.ReceivedAt = new(b.ReceivedAt.UnixMilli())
				}
				claims = append(claims, c)
			}
			if err := peers.BuildPack(t.Context(), file, packID, claims); err != nil {
				t.Fatal(err)
			}
			byHand, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			pack, err := claimcheck.NewPack(first, bodies)
			if err != nil {
				t.Fatal(err)
			}
			ours, err := io.ReadAll(pack.Object())
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(ours, byHand) {
				t.Errorf("our pack of %d bytes is not the %d bytes of the one that was made by hand", len(ours), len(byHand))
			}
			for storeName, store := range stores {
				t.Run(storeName, func(t *testing.T) { redeemByHand(t, store, name, byHand, bodies) })
			}
		})
	}
}

// redeemByHand puts an object under the key of a pack of a tenant of its own, and redeems
// each of its claims.
func redeemByHand(t *testing.T, store claimcheck.Store, name string, object []byte, bodies []claimcheck.Body) {
	t.Helper()
	tenant := map[string]string{"small": "small", "big": "big", "one byte": "one_byte-1"}[name]
	key := "claims/tenant=" + tenant + "/dt=2026-09-24/" + packID // the day of its id
	if first, err := claimcheck.NewRef(tenant, packID); err != nil || first.Key() != key {
		t.Fatalf("the key is %q, %v", first.Key(), err)
	}
	if err := store.Put(t.Context(), key, io.NewSectionReader(bytes.NewReader(object), 0, int64(len(object)))); err != nil {
		t.Fatal(err)
	}
	checker, err := claimcheck.New(claimcheck.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range bodies {
		ref := "urn:ankusa:claim:v1:" + tenant + ":" + packID[:25] + string("0123456789"[i])
		got, err := checker.Redeem(t.Context(), ref, hexDigest(b.Data), int64(len(b.Data)))
		if err != nil || !bytes.Equal(got, b.Data) {
			t.Errorf("claim %d: %d bytes, %v; want %d", i, len(got), err, len(b.Data))
		}
		stream, err := checker.Open(t.Context(), ref, hexDigest(b.Data), int64(len(b.Data)))
		if err != nil {
			t.Errorf("claim %d: %v", i, err)
			continue
		}
		got, err = io.ReadAll(stream)
		if err != nil || !bytes.Equal(got, b.Data) {
			t.Errorf("claim %d as a stream: %d bytes, %v; want %d", i, len(got), err, len(b.Data))
		}
		if err := stream.Close(); err != nil {
			t.Errorf("claim %d: %v", i, err)
		}
	}
}

// What we check in is a ZIP file to everybody else: Info-ZIP finds no fault, and Python reads
// each body under its claim's id.
func TestPacksAreZIPFiles(t *testing.T) {
	for name, bodies := range packs() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store, err := filestore.New(dir)
			if err != nil {
				t.Fatal(err)
			}
			checker, err := claimcheck.New(claimcheck.Config{Store: store})
			if err != nil {
				t.Fatal(err)
			}
			claims := checker.CheckIn(t.Context(), bodies)
			want := map[string][]byte{}
			names := []string{"index.bin"}
			for i, c := range claims {
				if c.Err != nil {
					t.Fatal(c.Err)
				}
				names = append(names, c.Ref.ClaimID())
				want[c.Ref.ClaimID()] = bodies[i].Data
			}
			file := filepath.Join(dir, filepath.FromSlash(claims[0].Ref.Key()))
			if out, err := exec.CommandContext(t.Context(), "unzip", "-t", file).CombinedOutput(); err != nil {
				t.Errorf("unzip -t: %v\n%s", err, out)
			}
			read, err := peers.OpenPack(t.Context(), file)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(read.Names, append(names, "manifest.json")) {
				t.Errorf("the entries are %q, want index.bin, the claims in their order and manifest.json", read.Names)
			}
			for id, data := range want {
				if !bytes.Equal(read.Entries[id], data) {
					t.Errorf("the entry %s has %d bytes, want the %d of the body", id, len(read.Entries[id]), len(data))
				}
			}
		})
	}
}
