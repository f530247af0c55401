package blobstore_test

import (
	"fmt"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/blobstore"
)

// Any bucket does: gcsblob.OpenBucket for Google Cloud Storage, azureblob.OpenBucket for Azure
// Blob Storage.
func ExampleNew() {
	bucket := memblob.OpenBucket(nil)
	defer bucket.Close()
	store, err := blobstore.New(blobstore.Config{
		Bucket:        bucket,
		WriterOptions: blob.WriterOptions{BufferSize: 1 << 20}, // of each put, in memory
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	checker, err := claimcheck.New(claimcheck.Config{Store: store})
	fmt.Println(checker != nil, err)
	// Output: true <nil>
}
