package webhook

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Signed is what a Standard Webhooks signature vouches for, beside the body.
type Signed struct {
	ID        string    // webhook-id
	Timestamp time.Time // webhook-timestamp
}

// VerifySignature verifies a Standard Webhooks signature: the headers webhook-id,
// webhook-timestamp (Unix seconds) and webhook-signature, a list of "v1,<base64>" separated
// by single spaces, any of which may be the MAC of "<id>.<timestamp>.<body>" under any of
// the secrets. A secret is "whsec_" and the key in base64, or any other text, whose bytes
// are the key. The timestamp may be 300 seconds from now either way, inclusive.
//
// Header names are found in any letter case; of a repeated header the first counts, and a
// value with bytes outside printable ASCII is none. Errors are of type [*Error] and
// permanent. The checks, in order: [CodeInvalidSecret] (no secret at all, or one that is
// empty or not canonical base64 after "whsec_", even beside a good one),
// [CodeMissingHeader] for id, timestamp, signature, [CodeInvalidTimestamp],
// [CodeTimestampOutOfTolerance], [CodeNoMatchingSignature].
//
// The format is https://github.com/standard-webhooks/standard-webhooks.
func VerifySignature(h http.Header, body []byte, secrets []string, now time.Time) (Signed, error) {
	list, err := standardSecrets(secrets)
	if err != nil {
		return Signed{}, err
	}
	return request{header: h, body: body, keys: list, now: now, tolerance: DefaultTolerance}.standard()
}

// StandardWebhooks verifies the signatures of providers that follow Standard Webhooks, and
// of Ankusa's HTTP sink. See [VerifySignature].
func StandardWebhooks(secrets ...string) SignatureVerifier {
	verify := func(r request) error {
		_, err := r.standard()
		return err
	}
	return newVerifier(scheme{name: "StandardWebhooks", timed: true, verify: verify}, standardSecrets, secrets)
}

const (
	webhookID        = "webhook-id"
	webhookTimestamp = "webhook-timestamp"
	webhookSignature = "webhook-signature"
)

func (r request) standard() (Signed, error) {
	id, err := r.required(webhookID)
	if err != nil {
		return Signed{}, err
	}
	at, err := r.required(webhookTimestamp)
	if err != nil {
		return Signed{}, err
	}
	signatures, err := r.required(webhookSignature)
	if err != nil {
		return Signed{}, err
	}
	seconds, err := r.checkTime(webhookTimestamp, at)
	if err != nil {
		return Signed{}, err
	}
	m := r.sign(id, ".", at, ".")
	for i, sum := range m.sums {
		m.sums[i] = base64.StdEncoding.AppendEncode(nil, sum)
	}
	for entry := range strings.SplitSeq(signatures, " ") {
		if s, ok := strings.CutPrefix(entry, "v1,"); ok {
			m.try([]byte(s))
		}
	}
	if err := m.verdict(webhookSignature); err != nil {
		return Signed{}, err
	}
	return Signed{ID: id, Timestamp: time.Unix(int64(seconds), 0).UTC()}, nil
}

// standardSecrets decodes all secrets or none.
func standardSecrets(secrets []string) ([][]byte, error) {
	list, err := rawSecrets(secrets)
	if err != nil {
		return nil, err
	}
	for i, s := range secrets {
		encoded, ok := strings.CutPrefix(s, "whsec_")
		if !ok {
			continue
		}
		key, err := base64.StdEncoding.Strict().DecodeString(encoded)
		// The decoder skips line breaks, which are not canonical.
		if err != nil || len(key) == 0 || strings.ContainsAny(encoded, "\r\n") {
			return nil, &Error{Code: CodeInvalidSecret, Err: errors.New("no canonical base64 after whsec_")}
		}
		list[i] = key
	}
	return list, nil
}
