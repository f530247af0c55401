package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// A wire is what the demo reads of the JSON message, with nothing but the standard library:
// what a consumer in any language would do.
type wire struct {
	Version        int               `json:"v"`
	ID             string            `json:"id"`
	SourceID       string            `json:"source_id"`
	TenantID       string            `json:"tenant_id"`
	ContentType    string            `json:"content_type"`
	Size           int               `json:"size"`
	DedupeKey      string            `json:"dedupe_key"`
	ReplayID       string            `json:"replay_id"`
	IdempotencyKey string            `json:"idempotency_key"`
	Verification   verification      `json:"verification"`
	Headers        map[string]string `json:"headers"`
	Traceparent    string            `json:"traceparent"`
	Tracestate     string            `json:"tracestate"`
	OrderingKey    string            `json:"ordering_key"`
	SHA256         string            `json:"sha256"`
	Claim          string            `json:"claim"`
	Metadata       map[string]string `json:"watermill_metadata"`
	Body           []byte            `json:"body_base64"`
}

type verification struct {
	Status  string `json:"status"`
	Flagged bool   `json:"flagged"`
}

func readWire(text []byte) (wire, error) {
	var w wire
	if err := json.Unmarshal(text, &w); err != nil {
		return w, fmt.Errorf("the message is not JSON: %w", err)
	}
	return w, nil
}

// attributes returns what a message has beside the JSON, on every transport with room for it.
func (w wire) attributes() map[string]string {
	m := map[string]string{
		"ankusa_id":              w.ID,
		"ankusa_source_id":       w.SourceID,
		"ankusa_message_version": "1",
		"ankusa_idempotency_key": w.IdempotencyKey,
		"content_type":           "application/json",
		"ankusa_dedupe_key":      w.DedupeKey,
		"ankusa_replay_id":       w.ReplayID,
		"ankusa_ordering_key":    w.OrderingKey,
		"traceparent":            w.Traceparent,
		"tracestate":             w.Tracestate,
	}
	for name, value := range m {
		if value == "" {
			delete(m, name)
		}
	}
	m["ankusa_tenant_id"] = w.TenantID // always there
	return m
}

// claimID is the last part of the claim.
func (w wire) claimID() string { return w.Claim[strings.LastIndexByte(w.Claim, ':')+1:] }

// shortened returns the JSON text with all but the start of the body cut out, and nothing
// else changed. The body is the last member.
func (w wire) shortened(text []byte) string {
	const shown = 24
	body := base64.StdEncoding.EncodeToString(w.Body)
	if len(body) <= 2*shown {
		return string(text)
	}
	cut := fmt.Sprintf("%s[%d more]", body[:shown], len(body)-shown)
	return strings.Replace(string(text), body, cut, 1)
}
