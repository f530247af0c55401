// Package blobstore keeps claim-checked bodies in a bucket of [gocloud.dev/blob]: Google Cloud
// Storage, Azure Blob Storage, and whatever else has a driver. [Store] is a
// [claimcheck.PrunableStore]. It is a module of its own because of what it brings along; for
// Amazon S3, and servers that speak its protocol, package s3store is the smaller one, and for a
// folder package filestore is the one that survives a crash.
//
// The bucket comes from [Config] and from nowhere else: no reference, key or message can lead a
// read to another one. Whoever opened it closes it.
//
// # Rights
//
// Checking in needs to create objects, redeeming to read them, retention to list and delete
// them. Where listing is allowed a missing bucket is told from a missing object: the first is an
// outage, the second is for good, and its message is given up. Where it is not allowed, both
// look like the second.
//
// # What the drivers make of it
//
//   - Objects are written with IfNotExist. Two puts of one key by one Store come one after the
//     other, because fileblob looks and then renames; two processes that share a folder of
//     fileblob could both succeed. Google Cloud Storage and Azure decide in the server.
//   - Objects are sent with the driver's Upload, which streams, and never with its Write: that
//     of azureblob panics when the object exists already.
//   - gcsblob answers NotFound to a 403. The status decides here, so that lost rights do not
//     look like lost bodies. Its client tries again for as long as the context lasts: give the
//     client (Bucket.As with a **storage.Client, SetRetry) or the calls a limit.
//   - gcsblob holds BufferSize (16 MiB by default) of each put in memory, to try it again;
//     memblob holds everything. fileblob does not sync, and its lists leave out what it may not
//     read.
package blobstore
