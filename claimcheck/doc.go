// Package claimcheck keeps the bodies of messages in an object store, where they are too large
// for a broker. The message carries a reference ([Ref]), the size and the digest of its body
// instead.
//
// The bodies of one tenant are put together in packs: one object, which is written once, never
// changed, and never deleted by reading. A pack is a plain ZIP file. Its layout, its key and the
// references are those of Ankusa, whose gateways and SDKs can redeem what this package stores,
// and the other way round.
//
// What is stored is not encrypted by this package, and a reference is no proof of a right: who
// can read the store can read every body in it.
package claimcheck
