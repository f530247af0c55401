package envelope

// fields is one message between its wire text and its Go forms. Both forms are built from
// it: [Envelope] and the open message. Strings and slices may alias what they came from.
type fields struct {
	id, sourceID, tenantID  string
	receivedAt              int64 // Unix milliseconds
	contentType             string
	dedupeKey, replayID     string
	idempotencyKey          string
	verification            Verification
	headers                 string // JSON object text in wire order; "" is {}
	traceparent, tracestate string
	instance, region        string
	orderingKey             string
	metadata                string // text of the watermill_metadata object; "" is none
	unknown                 string // unknown members as JSON object text; "" is none
	size                    int64  // of the body; on writing only used beside a claim
	sha256                  string // 64 lower-case hex digits, or "" when absent
	claim                   string // "" is the inline form
	body                    []byte
}
