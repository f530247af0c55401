// Package metrics counts for Prometheus what marshalers and middlewares do. They know nothing of
// Prometheus: each has an Observer, and [Collectors] is all of them.
//
//	counts, err := metrics.New(metrics.Config{Registerer: registry})
//	m := kafkawire.Marshaler{Source: "orders", Observer: counts}
//	cc, err := hookmw.NewClaimCheck(hookmw.ClaimCheckConfig{Store: store, Observer: counts})
//
// Publish times, handler times and received messages are Watermill's own business: its package
// components/metrics counts them, on the same registry.
//
// [NewOutbox] has gauges of what is in the table of an outbox.
//
// # Metrics
//
// The names and labels are stable. [Descriptions] and [OutboxDescriptions] list
// them with their help.
//
// Label values are few: no id, tenant, key or reference is one. A code is one of those that
// this module documents, "ok" for success, or "other" for any other text, so that nobody who
// sends messages can make time series. Topics are not told apart unless [Config.Topic] says
// how, since replies and the like have topics without number.
package metrics
