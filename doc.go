// Package envelope is one webhook message format for every Watermill transport.
//
// An [Envelope] is a webhook and what is known about it. It has two forms. The open form is
// an ordinary Watermill message inside the process: the payload is the raw body, the UUID is
// the envelope's ID, and the rest is metadata under the constants of this package. The
// sealed form is what travels: one JSON object, beside attributes of the transport.
// Marshalers (package marshaler and those below it) seal on publish and open on receive, so
// that handlers keep seeing the body they always saw.
//
// [ParseWire] and [Envelope.AppendWire] are the codec for programs without Watermill.
package envelope
