package envelope

// Keys of the metadata of an open message: msg.Payload is the raw body, msg.UUID the
// envelope's ID, and these entries hold the rest. An entry is absent when its value is empty.
const (
	MetadataID             = "ankusa_id" // equal to msg.UUID, unless the message was derived
	MetadataSourceID       = "ankusa_source_id"
	MetadataTenantID       = "ankusa_tenant_id"
	MetadataReceivedAt     = "ankusa_received_at" // Unix milliseconds, decimal
	MetadataContentType    = "ankusa_content_type"
	MetadataDedupeKey      = "ankusa_dedupe_key"
	MetadataReplayID       = "ankusa_replay_id"
	MetadataIdempotencyKey = "ankusa_idempotency_key"
	MetadataOrderingKey    = "ankusa_ordering_key"
	MetadataVerification   = "ankusa_verification"
	MetadataFlagged        = "ankusa_verification_flagged" // "true" or absent
	MetadataInstance       = "ankusa_instance"
	MetadataRegion         = "ankusa_region"
	MetadataTraceparent    = "traceparent"
	MetadataTracestate     = "tracestate"
	MetadataSize           = "ankusa_size"
	MetadataSHA256         = "ankusa_sha256"
	MetadataClaim          = "ankusa_claim"
	MetadataHeaders        = "ankusa_headers" // JSON object text, members in wire order
	MetadataUnknown        = "ankusa_unknown" // JSON object text

	// MetadataVersion is a native attribute of sealed messages. An open message never has
	// it: one that does was received by a stock subscriber and is still sealed.
	MetadataVersion = "ankusa_message_version"
)

// Keys that live in memory only: they are never written to a wire and never taken from one.
const (
	MetadataRedeemed  = "envelope_redeemed"  // the payload is the redeemed body of the claim
	MetadataMalformed = "envelope_malformed" // a Code, and ":field" where it has one
	MetadataRaw       = "envelope_raw"       // the bytes of a malformed message
	MetadataKey       = "envelope_key"       // the Kafka key of a malformed message
	MetadataFallback  = "envelope_fallback"  // "true": opened by the marshaler's Fallback
	MetadataReceipt   = "envelope_receipt"   // the broker's own name of the stored copy
)
