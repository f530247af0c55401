package envelope

// DeliveryID names one delivery: ID, or "ID:replay:<replay id>".
func (e *Envelope) DeliveryID() string { panic("todo") }

// LaneKey is OrderingKey, or "tenant/source" ("/source" without a tenant).
func (e *Envelope) LaneKey() string { panic("todo") }

// DeduplicationKey is what a consumer deduplicates by: a shipped IdempotencyKey, else
// "<tenant or default>:<source>:<dedupe key>", else ID.
func (e *Envelope) DeduplicationKey() string { panic("todo") }

// DeduplicationKeyWithReplay lets a deliberate replay through: it appends "#replay:<replay id>".
func (e *Envelope) DeduplicationKeyWithReplay() string { panic("todo") }

// DigestLongDedupeKey returns key, or "sha256:" and the hex digest of a key over 200 bytes.
func DigestLongDedupeKey(key string) string { panic("todo") }

// NewID mints an ID: a lower-case dashed UUIDv7.
func NewID() string { panic("todo") }
