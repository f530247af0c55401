// Package webhook is the HTTP side door: it turns the requests of webhook providers into
// envelopes.
//
// [FromRequest] reads a request as a provider sends it, and a [Verifier] judges it:
// [StandardWebhooks], [GitHub], [Stripe], [Shopify] and [Slack] are ready. A [Receiver] is
// an http.Handler that does this and publishes the envelope. [FromDelivery] reads what
// Ankusa's HTTP sink posts, which is an envelope already.
//
// # Several sources
//
// One Receiver serves one source; several go on one mux, each under its path:
//
//	mux.Handle("/hooks/github", github)
//	mux.Handle("/hooks/stripe", stripe)
//
// Where sources or tenants come from a table, [ReceiverConfig.Route] chooses the options of
// each request.
package webhook
