package peers

import (
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"
)

// A Claim is what an SDK is asked to redeem through a gateway.
type Claim struct {
	BaseURL string            // of the gateway
	Headers map[string]string // of the request
	Timeout time.Duration     // of the request; 0: the 10 s that both SDKs have
	Ref     string
	SHA256  string
}

// A ClaimRefusal is an SDK's error from redeeming.
type ClaimRefusal struct {
	Class string // the type of the error
	// Code is what it says, in the words of package claimcheck: invalid_ref, not_found,
	// rejected, integrity or unavailable. It is empty when it is not an error that the SDK
	// documents.
	Code      string
	Retryable bool   // the SDK's advice: retry, or dead-letter
	Status    int    // of a rejected request
	Body      string // of a rejected request, as JSON
}

// Redeem asks the SDK for the body of a claim. The refusal is nil when there is one. A peer
// that does not answer ends the test.
func (p *Peer) Redeem(t testing.TB, c Claim) ([]byte, *ClaimRefusal) {
	t.Helper()
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Headers == nil {
		c.Headers = map[string]string{}
	}
	request, err := json.Marshal(map[string]any{
		"base_url": c.BaseURL, "headers": c.Headers, "timeout": c.Timeout.Seconds(), "ref": c.Ref, "sha256": c.SHA256,
	})
	if err != nil {
		t.Fatal(err)
	}
	line := append(base64.StdEncoding.AppendEncode([]byte("redeem "), request), '\n')
	var answer struct {
		Redeemed *string
		Refusal  *ClaimRefusal
	}
	text := p.ask(t, line, &answer)
	if (answer.Redeemed == nil) == (answer.Refusal == nil) {
		t.Fatalf("%s: no verdict in the answer %.200q", p.SDK, text)
	}
	if answer.Refusal != nil {
		return nil, answer.Refusal
	}
	body, err := base64.StdEncoding.DecodeString(*answer.Redeemed)
	if err != nil {
		t.Fatalf("%s: %v in the answer %.200q", p.SDK, err, text)
	}
	return body, nil
}
