package envelope

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/google/uuid"
)

// longDedupeKey is the length in bytes up to which a dedupe key is carried as it is.
const longDedupeKey = 200

// DeliveryID names one delivery of the hook: ID, or "ID:replay:<replay id>" for a
// deliberate replay.
func (e *Envelope) DeliveryID() string { return deliveryID(e.ID, e.ReplayID) }

// LaneKey names the lane in which hooks stay in order: OrderingKey, or "tenant/source"
// ("/source" without a tenant).
func (e *Envelope) LaneKey() string { return laneKey(e.OrderingKey, e.TenantID, e.SourceID) }

// DeduplicationKey is what a consumer deduplicates by: the IdempotencyKey that was shipped,
// else "<tenant>:<source>:<dedupe key>" with default for no tenant, else ID. It is the same
// on every retry and replay of a hook, and when a provider sends an event twice. Hooks
// without a tenant share the tenant name default.
func (e *Envelope) DeduplicationKey() string {
	return idempotencyKey(e.IdempotencyKey, e.TenantID, e.SourceID, e.DedupeKey, e.ID)
}

// DeduplicationKeyWithReplay is the DeduplicationKey of a consumer that lets deliberate
// replays through: a hook with a ReplayID has "#replay:<replay id>" behind it.
func (e *Envelope) DeduplicationKeyWithReplay() string {
	key := e.DeduplicationKey()
	if e.ReplayID != "" {
		key += "#replay:" + e.ReplayID
	}
	return key
}

// DigestLongDedupeKey returns key, or "sha256:" and the digest in lower-case hex of a key
// over 200 bytes. It is for ingest: what sets DedupeKey from a provider's request calls it,
// what passes a hook on does not.
func DigestLongDedupeKey(key string) string {
	if len(key) <= longDedupeKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// NewID mints an ID: a lower-case dashed UUIDv7. Like package crypto/rand, it ends the
// program when the system has no randomness.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

func deliveryID(id, replayID string) string {
	if replayID == "" {
		return id
	}
	return id + ":replay:" + replayID
}

func laneKey(orderingKey, tenantID, sourceID string) string {
	if orderingKey != "" {
		return orderingKey
	}
	return tenantID + "/" + sourceID
}

// idempotencyKey is the shipped key, or the one that is computed of the others.
func idempotencyKey(shipped, tenantID, sourceID, dedupeKey, id string) string {
	switch {
	case shipped != "":
		return shipped
	case dedupeKey == "":
		return id
	case tenantID == "":
		tenantID = "default"
	}
	return tenantID + ":" + sourceID + ":" + dedupeKey
}
