// Package gateway serves the bodies of a claim-check store over HTTP, read only, as the
// gateways and SDKs of Ankusa do: for consumers that have no access to the store itself, in
// any language, and for curl.
//
//	GET|HEAD /v1/claims/{tenant}/{claim id}   the body
//	GET|HEAD /health                          {"status":"ok"}
//
// It knows a claim's place in the store and not its digest, so it hands out what is there:
// whoever redeems compares the size and the digest with those in the message, as
// [claimcheck.Client] does.
package gateway
