// Package s3store keeps claim-checked bodies in a bucket of Amazon S3, or of any server that
// speaks its protocol. [Store] is a [claimcheck.PrunableStore].
//
// The bucket comes from [Config] and from nowhere else: no reference, key or message can lead
// a read to another one. Endpoint, credentials, region, path style, retries and time-outs are
// the client's; the example of [New] shows a client for a server of one's own.
//
// # Rights
//
// Checking in needs s3:PutObject, redeeming s3:GetObject and s3:ListBucket, retention also
// s3:DeleteObject. S3 answers 403 instead of 404 for a missing object to whom may not list the
// bucket: without s3:ListBucket a body that is gone looks forbidden, which is transient, and
// its message is tried again for ever.
//
// # Conditional writes
//
// Put sends If-None-Match: *, so that no object is ever replaced. Amazon S3 has had it since
// 2024, and most other servers have it. For one that refuses the header, let
// [Config.PutInput] clear IfNoneMatch; then Put never answers CodeExists, and replaces what is
// there. The keys of a checker are random.
//
// # Checksums
//
// By default the SDK sends a CRC-32 with each put: over HTTPS as a trailer behind a body cut
// into chunks (aws-chunked), which many servers and proxies do not take, and over HTTP by
// reading the body three times, for the CRC-32, for the SHA-256 of the signature, and to send
// it. This package asks for neither ("when required"): over HTTPS the body is read once and
// TLS protects it, over HTTP twice, and the signed SHA-256 protects it. A ranged read has no
// checksum at all, and none is asked for. Whoever redeems compares the body with the digest in
// its message whatever the store did.
//
// To have S3 keep a checksum, as buckets with an object lock demand, let [Config.PutInput] set
// ChecksumAlgorithm.
//
// # Versions
//
// In a bucket with versions Delete only hides an object. Let a lifecycle rule remove versions
// that are not current, or what was erased is still there.
package s3store
