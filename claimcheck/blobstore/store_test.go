package blobstore_test

import (
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/blobstore"
	"github.com/watermill-envelope/envelope/claimcheck/storetest"
)

func newStore(t *testing.T, c blobstore.Config) *blobstore.Store {
	t.Helper()
	s, err := blobstore.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// closing closes a bucket after the test.
func closing(t *testing.T, b *blob.Bucket) *blob.Bucket {
	t.Helper()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func folder(t *testing.T, dir string) *blob.Bucket {
	t.Helper()
	b, err := fileblob.OpenBucket(dir, &fileblob.Options{NoTempDir: true})
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, b)
}

// closed is a bucket that can do nothing any more.
func closed(t *testing.T) claimcheck.Store {
	t.Helper()
	b := memblob.OpenBucket(nil)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return newStore(t, blobstore.Config{Bucket: b})
}

func TestMemblob(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		New: func(t *testing.T) claimcheck.Store {
			return newStore(t, blobstore.Config{Bucket: closing(t, memblob.OpenBucket(nil))})
		},
		Unavailable: closed,
	})
}

func TestFileblob(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		New: func(t *testing.T) claimcheck.Store {
			return newStore(t, blobstore.Config{Bucket: folder(t, t.TempDir())})
		},
	})
}
