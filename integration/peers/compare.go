package peers

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/watermill-envelope/envelope"
)

// Want returns what an SDK should make of a message that was read as e, except for "v",
// which an Envelope does not have.
func Want(e *envelope.Envelope) Decoded {
	headers := map[string]any{}
	for _, h := range e.Headers {
		headers[h.Name] = h.Value
	}
	want := Decoded{
		"id":              e.ID,
		"source_id":       e.SourceID,
		"tenant_id":       orNull(e.TenantID),
		"received_at":     json.Number(strconv.FormatInt(e.ReceivedAt.UnixMilli(), 10)),
		"content_type":    orNull(e.ContentType),
		"size":            json.Number(strconv.FormatInt(e.Size, 10)),
		"dedupe_key":      orNull(e.DedupeKey),
		"replay_id":       orNull(e.ReplayID),
		"idempotency_key": orNull(e.IdempotencyKey),
		"verification":    nil,
		"headers":         headers,
		"traceparent":     orNull(e.Traceparent),
		"tracestate":      orNull(e.Tracestate),
		"instance":        orNull(e.Instance),
		"region":          orNull(e.Region),
		"claim":           orNull(e.Claim),
		"sha256":          orNull(e.SHA256),
		"body":            nil,
		"key":             e.DeduplicationKey(),
		"key_with_replay": e.DeduplicationKeyWithReplay(),
		"trusted":         e.Verification.Trusted(),
	}
	if e.Claim == "" {
		want["body"] = base64.StdEncoding.EncodeToString(e.Body)
	}
	if v := e.Verification; v != (envelope.Verification{}) {
		want["verification"] = map[string]any{"status": string(v.Status), "flagged": v.Flagged}
	}
	return want
}

// Diff says where an SDK's answer differs from what it should be: one line for each field,
// sorted. Fields in p.Unknown must be absent, and all others present.
func (p *Peer) Diff(got, want Decoded) []string {
	names := maps.Clone(want)
	maps.Copy(names, got)
	var diff []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		g, exposed := got[name]
		w, wanted := want[name]
		switch {
		case slices.Contains(p.Unknown, name):
			if exposed {
				diff = append(diff, name+": exposed, but listed as unknown to this version")
			}
		case !exposed:
			diff = append(diff, name+": not exposed, and not listed as unknown to this version")
		case !wanted:
			diff = append(diff, name+": exposed, but not compared with anything")
		case !reflect.DeepEqual(g, w):
			diff = append(diff, fmt.Sprintf("%s: %.200q, want %.200q", name, fmt.Sprint(g), fmt.Sprint(w)))
		}
	}
	return diff
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
