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
// [FromMessage] and [Envelope.Message] convert between the struct and the open form.
//
// # What may be done to an open message
//
// Handlers change payloads, copy metadata to other messages, and publish what they
// received. [Prepare] decides what sealing makes of that, by six rules:
//
//  1. The payload is the truth. [MetadataSize] and [MetadataSHA256] say what was received;
//     sealing computes both again. A hook with another payload is the same hook, enriched.
//  2. A claim is kept while it is true. A message whose body lies in an object store is
//     passed on as its reference, also after the body was fetched into the payload: no body
//     is stored twice. A payload with another digest drops the reference and is itself the
//     body. The payload of a claim that was not fetched is empty.
//  3. Another UUID is another message. Metadata that were copied to a message with a new UUID
//     keep what says where it came from: source, tenant, content type, provider headers,
//     ordering key, instance, region, trace context and the user's own. They lose what
//     belongs to the first message alone (dedupe and idempotency key, replay id, claim,
//     unknown members, receipt), so that no consumer takes the two for one; and its
//     verification and time of receipt, so that no trust is laundered. [Derive] makes such a
//     message with an id that is the same when a handler runs again; [Replay] marks the same
//     hook as delivered again on purpose.
//  4. Malformed stays as it came. What cannot be read opens with an empty payload, so that no
//     handler takes it for a body, and is sealed to the very bytes that came in, with its
//     native headers: a dead-letter topic holds what was sent. Once its payload or its UUID is
//     changed it is a new message that has nothing of the old one but the user's metadata.
//  5. [MetadataID] makes an envelope. A message without it becomes one when it is published:
//     its UUID is the ID, what the user set of source, tenant, dedupe key, ordering key,
//     content type and replay id counts (and of instance, region, trace context and time of
//     receipt), and the marshaler's [Defaults] fill in what is absent. It cannot say of
//     itself that it was verified, and it must have a source. In an envelope, absent means
//     none: defaults never touch it. A message that a stock subscriber received sealed is
//     opened first.
//  6. Keys can be chosen. The lane key ([LaneKeyOf]) orders by tenant and source, or by
//     the hook's own ordering key; marshalers take a function that chooses another.
//
// Publishing changes two things in the caller's message and no more: a UUID that was empty
// is minted, so that a retry has the same, and nil metadata are made empty.
//
// # Names
//
// Metadata whose names start with ankusa_ or envelope_, and traceparent and tracestate, in any
// letter case, are not the user's (see [IsReserved]): they are written from the fields of the
// envelope only and read from the JSON only, never from a transport's headers. Entries under
// envelope_ exist in memory only. All other metadata survive every transport, in its headers
// or inside the JSON. A traceparent or tracestate that is no W3C trace context is user
// metadata.
//
// # Printing
//
// An [Envelope] may be printed and logged: every verb of package fmt and log/slog show the
// body as its length and the provider's headers as their number. [encoding/json] shows the
// wire form with the body, and so does a slog.JSONHandler of a slice, map or struct with an
// Envelope in it. Go has no hook for an Envelope in an unexported field under %v, for
// %p, and for packages that dump values by reflection; and a Watermill message is printed
// with all that it has.
package envelope
