package envelope

// fields is one message on its way to the wire: both Go forms are written from it, [Envelope]
// and the open message. Its strings and slices are only read.
type fields struct {
	id, sourceID, tenantID  string
	receivedAt              int64 // Unix milliseconds
	contentType             string
	dedupeKey, replayID     string
	idempotencyKey          string // "" is computed on writing
	verification            Verification
	headers                 string // JSON object text in wire order; "" is {}
	traceparent, tracestate string
	instance, region        string
	orderingKey             string
	metadata                string // text of the watermill_metadata object; "" is none
	unknown                 string // unknown members as JSON object text; "" is none
	size                    int64  // of the body; on writing only used beside a claim
	sha256                  string // 64 lower-case hex digits, or "" when absent; on writing only used beside a claim
	claim                   string // "" is the inline form
	body                    []byte // on writing only used without a claim

	// Headers and metadata of an Envelope, which appendWire writes instead of the texts
	// when they are not nil. See appendHeaders and appendMetadata for the rules.
	headerList  []Header
	metadataMap map[string]string
}

// The members that are known, in the order in which they are written.
const (
	memberV = iota
	memberID
	memberSourceID
	memberTenantID
	memberReceivedAt
	memberContentType
	memberSize
	memberDedupeKey
	memberReplayID
	memberIdempotencyKey
	memberVerification
	memberHeaders
	memberTraceparent
	memberTracestate
	memberInstance
	memberRegion
	memberOrderingKey
	memberMetadata
	memberSHA256
	memberClaim
	memberBody

	memberCount
	memberUnknown = -1
)

var memberNames = [memberCount]string{
	"v", "id", "source_id", "tenant_id", "received_at", "content_type", "size", "dedupe_key",
	"replay_id", "idempotency_key", "verification", "headers", "traceparent", "tracestate",
	"instance", "region", "ordering_key", "watermill_metadata", "sha256", "claim", "body_base64",
}

// quotedNames are the names as they are most often in a text.
var quotedNames = [memberCount]string{
	`"v":`, `"id":`, `"source_id":`, `"tenant_id":`, `"received_at":`, `"content_type":`, `"size":`, `"dedupe_key":`,
	`"replay_id":`, `"idempotency_key":`, `"verification":`, `"headers":`, `"traceparent":`, `"tracestate":`,
	`"instance":`, `"region":`, `"ordering_key":`, `"watermill_metadata":`, `"sha256":`, `"claim":`, `"body_base64":`,
}

// memberOf returns the member with that name, which is compared byte for byte.
func memberOf(name string) int {
	switch name {
	case "v":
		return memberV
	case "id":
		return memberID
	case "source_id":
		return memberSourceID
	case "tenant_id":
		return memberTenantID
	case "received_at":
		return memberReceivedAt
	case "content_type":
		return memberContentType
	case "size":
		return memberSize
	case "dedupe_key":
		return memberDedupeKey
	case "replay_id":
		return memberReplayID
	case "idempotency_key":
		return memberIdempotencyKey
	case "verification":
		return memberVerification
	case "headers":
		return memberHeaders
	case "traceparent":
		return memberTraceparent
	case "tracestate":
		return memberTracestate
	case "instance":
		return memberInstance
	case "region":
		return memberRegion
	case "ordering_key":
		return memberOrderingKey
	case "watermill_metadata":
		return memberMetadata
	case "sha256":
		return memberSHA256
	case "claim":
		return memberClaim
	case "body_base64":
		return memberBody
	}
	return memberUnknown
}
