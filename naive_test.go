package envelope_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/watermill-envelope/envelope"
)

// naiveMessage is the codec that one writes in an afternoon: encoding/json on a tagged
// struct, and the checks that need no second pass. The benchmarks measure against it.
type naiveMessage struct {
	V              int               `json:"v"`
	ID             string            `json:"id"`
	SourceID       string            `json:"source_id"`
	TenantID       *string           `json:"tenant_id"`
	ReceivedAt     int64             `json:"received_at"`
	ContentType    *string           `json:"content_type"`
	Size           int64             `json:"size"`
	DedupeKey      *string           `json:"dedupe_key"`
	ReplayID       *string           `json:"replay_id"`
	IdempotencyKey string            `json:"idempotency_key"`
	Verification   naiveVerification `json:"verification"`
	Headers        map[string]string `json:"headers"`
	Traceparent    *string           `json:"traceparent"`
	Tracestate     *string           `json:"tracestate"`
	Instance       *string           `json:"instance"`
	Region         *string           `json:"region"`
	OrderingKey    string            `json:"ordering_key,omitempty"`
	SHA256         string            `json:"sha256"`
	Body           []byte            `json:"body_base64"`
}

type naiveVerification struct {
	Status  string `json:"status"`
	Flagged bool   `json:"flagged"`
}

func naiveEncode(e *envelope.Envelope) ([]byte, error) {
	digest := sha256.Sum256(e.Body)
	headers := make(map[string]string, len(e.Headers))
	for _, h := range e.Headers {
		headers[h.Name] = h.Value
	}
	return json.Marshal(naiveMessage{
		V: 1, ID: e.ID, SourceID: e.SourceID, TenantID: orNull(e.TenantID),
		ReceivedAt: e.ReceivedAt.UnixMilli(), ContentType: orNull(e.ContentType),
		Size: int64(len(e.Body)), DedupeKey: orNull(e.DedupeKey), ReplayID: orNull(e.ReplayID),
		IdempotencyKey: e.DeduplicationKey(),
		Verification:   naiveVerification{string(e.Verification.Status), e.Verification.Flagged},
		Headers:        headers, Traceparent: orNull(e.Traceparent), Tracestate: orNull(e.Tracestate),
		Instance: orNull(e.Instance), Region: orNull(e.Region), OrderingKey: e.OrderingKey,
		SHA256: hex.EncodeToString(digest[:]), Body: e.Body,
	})
}

func naiveDecode(data []byte) (*envelope.Envelope, error) {
	var m naiveMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	digest := sha256.Sum256(m.Body)
	if m.V != 1 || m.ID == "" || m.Size != int64(len(m.Body)) || m.SHA256 != hex.EncodeToString(digest[:]) {
		return nil, errors.New("invalid message")
	}
	headers := make([]envelope.Header, 0, len(m.Headers))
	for name, v := range m.Headers {
		headers = append(headers, envelope.Header{Name: name, Value: v})
	}
	return &envelope.Envelope{
		ID: m.ID, SourceID: m.SourceID, TenantID: orEmpty(m.TenantID),
		ReceivedAt: time.UnixMilli(m.ReceivedAt), ContentType: orEmpty(m.ContentType), Headers: headers,
		Body: m.Body, Size: m.Size, DedupeKey: orEmpty(m.DedupeKey), ReplayID: orEmpty(m.ReplayID),
		IdempotencyKey: m.IdempotencyKey,
		Verification:   envelope.Verification{Status: envelope.VerificationStatus(m.Verification.Status), Flagged: m.Verification.Flagged},
		Traceparent:    orEmpty(m.Traceparent), Tracestate: orEmpty(m.Tracestate),
		Instance: orEmpty(m.Instance), Region: orEmpty(m.Region), OrderingKey: m.OrderingKey, SHA256: m.SHA256,
	}, nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
