// Package peers checks the wire format against readers that are not ours: the Ankusa SDKs
// for Python and Rust, each behind a small program of this package that decodes one message
// after the other and redeems claims. Packs are checked against a builder and a ZIP library
// of another language.
//
// [Python] and [Rust] start a peer for a test, and [GitHubBodies] are real webhook bodies to
// send to it. What they need is fetched or built once by the package managers' own clients,
// into the folder of package cache; the Install functions do it ahead of time.
//
// The tests of this package say what the SDKs read of what we publish, and what each side
// refuses. docs/interoperability.md tells users the differences.
package peers
