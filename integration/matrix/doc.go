// Package matrix shows that transports can be swapped: what goes from any of them through a
// router to any other comes out as it went in.
//
// `make matrix` prints the table of all pairs; `make integration` runs the same as a test. For
// every ordered pair (A, B) the same 40 messages are published on A, received by a router,
// published by it on B, and received by a router again, both behind a Chain of package middleware with a
// claim check. Every field of the Envelope and all metadata at the end are compared with those
// at the start. What differs is reported as pair, message and field.
//
// What may differ is what the format says: header names become lower case; size and digest are
// those of the body; an idempotency key and a verification that are missing are there; a
// message without a time has the time of its publishing; a body over 65,536 bytes has a claim.
//
// A body that is too large for a transport is carried by claim check, as users of the chain
// expect, so all pairs agree on bodies of any size. Without one the publisher refuses it, with an
// envelope.ErrMessageTooLarge, before anything is sent: TestLimits checks that for each transport,
// beside a message of exactly its limit.
//
// Each server is started once. Each end has two topics, one where messages go in and one where
// they arrive from all others: the id of a message says where it came in. So there are two
// subscriptions for each transport, and not two for each pair.
//
// To add a transport, add its server to TestMain and its end to the table in ends_test.go.
package matrix
