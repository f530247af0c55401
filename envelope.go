package envelope

import "time"

// MinVersion and MaxVersion bound the wire versions ("v") that are read. Version 1
// is always written; both are decoded alike.
const (
	MinVersion = 1
	MaxVersion = 2
)

// An Envelope is one webhook: the exact bytes a provider sent, and what is known about
// them. The zero value of a string field means "none". See the wire format in docs/wire.md
// for how each field is written.
//
// An Envelope is plain data: it may be copied, and used by several goroutines as long as
// none of them writes to it.
type Envelope struct {
	// ID names the stored hook; the same on every retry and replay. Opaque and not
	// empty; a UUIDv7 where we mint it.
	ID string
	// SourceID names where the hook came from.
	SourceID string
	// TenantID is whose hook it is; written as null when empty.
	TenantID string
	// ReceivedAt has millisecond precision on the wire; the zero time is written as now.
	ReceivedAt time.Time
	// ContentType is the provider's content type of Body, verbatim; it is never sniffed.
	ContentType string
	// Headers are the forwarded provider headers in order of arrival.
	Headers []Header
	// Body is the exact raw body. It is empty when Claim is set and the body was not redeemed.
	Body []byte
	// Size is the length of the body in bytes, known without Body for a claim. It is
	// computed from Body on writing, unless the claim form is written.
	Size int64
	// DedupeKey is the provider's own event key.
	DedupeKey string
	// ReplayID is set only on a deliberate replay.
	ReplayID string
	// IdempotencyKey is written as it is when not empty, else computed. See
	// [Envelope.DeduplicationKey].
	IdempotencyKey string
	// Verification says how the hook was verified at ingest.
	Verification Verification
	// Traceparent and Tracestate are the W3C Trace Context.
	Traceparent, Tracestate string
	// Instance and Region name where the hook was published.
	Instance, Region string
	// OrderingKey is the lane key of an ordered publisher. See [Envelope.LaneKey].
	OrderingKey string
	// Claim refers to a body that lies in an object store (urn:ankusa:claim:...).
	Claim string
	// SHA256 is the digest of the body in 64 lower-case hex digits. It is computed from
	// Body on writing, unless the claim form is written.
	SHA256 string
	// Metadata are the Watermill metadata that are none of the above.
	Metadata map[string]string
	// Unknown are the members of a decoded message that this version does not know, as the
	// text of one JSON object, member by member as they were read; they are written again.
	Unknown []byte
}

// A Header is one forwarded provider header.
type Header struct{ Name, Value string }

// Verification says how a hook was verified at ingest. The zero value is written as
// skipped and not flagged.
type Verification struct {
	Status  VerificationStatus
	Flagged bool
}

// A VerificationStatus is one of the constants below, or any other text that a producer wrote.
type VerificationStatus string

// The statuses that producers write today.
const (
	VerificationOK      VerificationStatus = "ok"
	VerificationFailed  VerificationStatus = "failed"
	VerificationSkipped VerificationStatus = "skipped"
)

// Trusted reports whether the hook was verified and nothing was held against it.
func (v Verification) Trusted() bool { return v.Status == VerificationOK && !v.Flagged }
