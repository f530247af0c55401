// Package redispubsub is a Watermill transport over the channels of Redis (PUBLISH and
// SUBSCRIBE), with go-redis: a [Publisher] that knows when nobody listens, and a [Subscriber]
// that comes back after an outage. Both take the PubSubMarshaler of marshaler/rediswire:
//
//	m := rediswire.PubSubMarshaler{Source: "orders"}
//	pub, err := redispubsub.NewPublisher(redispubsub.PublisherConfig{Client: client, Marshaler: m})
//	sub, err := redispubsub.NewSubscriber(redispubsub.SubscriberConfig{Client: client, Unmarshaler: m})
//
// The client is the caller's: it may be shared, and nothing here closes it. On Redis Cluster,
// PUBLISH counts only the subscribers on the node that it is sent to. Clients of go-redis
// subscribe on the node of the channel's slot, where it publishes too; if others do not, set
// AllowNoSubscribers.
//
// # At most once
//
// Redis keeps nothing: a message reaches who is subscribed at that moment, and comes once.
// Every subscriber gets every message; there are no groups. What is lost, and what tells of it:
//
//   - what is published while nobody is subscribed: an error of Publish;
//   - what is published while a subscription is interrupted (others may be subscribed): a log
//     line of that subscription when it is lost, and one when it is back. From then on
//     everything arrives;
//   - what waits for a subscriber that is too slow. It reads Buffer messages ahead and then no
//     more; Redis keeps the rest, and closes the connection when that is over
//     client-output-buffer-limit (by default 32 MiB, or 8 MiB for a minute): an interruption;
//   - what was received and not handed out when the subscription ends, or was nacked
//     MaxAttempts times: a log line.
//
// A message comes twice when the answer to a PUBLISH is lost and the client sends it again
// (redis.Options.MaxRetries), or the caller does.
//
// Where no message may be lost, use a stream: marshaler/rediswire.
package redispubsub
