package envelope_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope"
)

func TestKeys(t *testing.T) {
	tests := []struct {
		why                                    string
		in                                     envelope.Envelope
		delivery, lane, dedup, dedupWithReplay string
	}{
		{
			why:      "the id alone",
			in:       envelope.Envelope{ID: "id-1", SourceID: "stripe"},
			delivery: "id-1", lane: "/stripe", dedup: "id-1", dedupWithReplay: "id-1",
		},
		{
			why:      "a tenant and a dedupe key",
			in:       envelope.Envelope{ID: "id-1", SourceID: "stripe", TenantID: "acme", DedupeKey: "evt_1"},
			delivery: "id-1", lane: "acme/stripe", dedup: "acme:stripe:evt_1", dedupWithReplay: "acme:stripe:evt_1",
		},
		{
			why:      "no tenant is the tenant default of dedupe keys, and none of the lane",
			in:       envelope.Envelope{ID: "id-1", SourceID: "stripe", DedupeKey: "evt_1"},
			delivery: "id-1", lane: "/stripe", dedup: "default:stripe:evt_1", dedupWithReplay: "default:stripe:evt_1",
		},
		{
			why: "a shipped key wins; a replay is another delivery of the same hook",
			in: envelope.Envelope{
				ID: "id-1", SourceID: "stripe", TenantID: "acme", DedupeKey: "evt_1",
				IdempotencyKey: "shipped", ReplayID: "r-1",
			},
			delivery: "id-1:replay:r-1", lane: "acme/stripe", dedup: "shipped", dedupWithReplay: "shipped#replay:r-1",
		},
		{
			why:      "a replay without a dedupe key",
			in:       envelope.Envelope{ID: "id-1", SourceID: "stripe", ReplayID: "r-1"},
			delivery: "id-1:replay:r-1", lane: "/stripe", dedup: "id-1", dedupWithReplay: "id-1#replay:r-1",
		},
		{
			why:      "an ordering key is the lane",
			in:       envelope.Envelope{ID: "id-1", SourceID: "stripe", TenantID: "acme", OrderingKey: "customer-7"},
			delivery: "id-1", lane: "customer-7", dedup: "id-1", dedupWithReplay: "id-1",
		},
		{
			why:      "neither tenant nor source",
			in:       envelope.Envelope{ID: "id-1"},
			delivery: "id-1", lane: "/", dedup: "id-1", dedupWithReplay: "id-1",
		},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			got := []string{tt.in.DeliveryID(), tt.in.LaneKey(), tt.in.DeduplicationKey(), tt.in.DeduplicationKeyWithReplay()}
			want := []string{tt.delivery, tt.lane, tt.dedup, tt.dedupWithReplay}
			if !slices.Equal(got, want) {
				t.Errorf("delivery id, lane, deduplication keys = %q, want %q", got, want)
			}
		})
	}
}

func TestDigestLongDedupeKey(t *testing.T) {
	for _, tt := range []struct{ why, key, want string }{
		{"empty", "", ""},
		{"200 bytes are carried", strings.Repeat("a", 200), strings.Repeat("a", 200)},
		{"201 bytes are not", strings.Repeat("a", 201), "sha256:a92efd82109373e58f9a2056dee01e807e216ce6075f7051207c0a9f7d666e50"},
		{"bytes are counted, not characters", strings.Repeat("ä", 101), "sha256:ca1341e52c9b1ea71cfc2c590e300efc9bf827c495de098aa57349c937bc3c0b"},
	} {
		if got := envelope.DigestLongDedupeKey(tt.key); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.why, got, tt.want)
		}
	}
}

func TestNewID(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	last := ""
	for range 100 {
		id := envelope.NewID()
		if !form.MatchString(id) {
			t.Fatalf("%q is no lower-case dashed UUIDv7", id)
		}
		if id <= last {
			t.Fatalf("%q after %q: ids are to be ordered by time", id, last)
		}
		last = id
	}
}

func ExampleEnvelope_DeduplicationKey() {
	e := envelope.Envelope{ID: "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10", SourceID: "stripe", TenantID: "acme", DedupeKey: "evt_1"}
	fmt.Println(e.DeduplicationKey())
	e.ReplayID = "0199a1c2-9d00-7a00-8000-000000000001"
	fmt.Println(e.DeduplicationKey(), "(a replay is the same hook)")
	fmt.Println(e.DeduplicationKeyWithReplay())
	// Output:
	// acme:stripe:evt_1
	// acme:stripe:evt_1 (a replay is the same hook)
	// acme:stripe:evt_1#replay:0199a1c2-9d00-7a00-8000-000000000001
}
