package webhook

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// GitHub verifies X-Hub-Signature-256: "sha256=" and the MAC of the body in hex. The secret
// is the one of the webhook's settings.
//
// GitHub signs no time. Its delivery id is in X-GitHub-Delivery, the same when a person
// asks for a redelivery: a good DedupeHeader.
func GitHub(secrets ...string) SignatureVerifier {
	return newVerifier(scheme{name: "GitHub", verify: verifyGitHub}, rawSecrets, secrets)
}

func verifyGitHub(r request) error {
	const field = "x-hub-signature-256"
	header, err := r.required(field)
	if err != nil {
		return err
	}
	signature, ok := hexAfter(header, "sha256=")
	if !ok {
		return &Error{Code: CodeMalformedHeader, Field: field}
	}
	m := r.sign()
	m.try(signature)
	return m.verdict(field)
}

// Stripe verifies Stripe-Signature: "t=<Unix seconds>,v1=<hex>", with one v1 for each of
// the endpoint's secrets, over "<t>.<body>". A secret is used as it is shown, with its
// "whsec_". Entries other than t and v1 are ignored.
//
// The event's id is in the body ("id": "evt_..."): see DedupeFunc.
func Stripe(secrets ...string) SignatureVerifier {
	return newVerifier(scheme{name: "Stripe", timed: true, verify: verifyStripe}, rawSecrets, secrets)
}

func verifyStripe(r request) error {
	const field = "stripe-signature"
	header, err := r.required(field)
	if err != nil {
		return err
	}
	at, times := "", 0
	var signatures [][]byte
	for entry := range strings.SplitSeq(header, ",") {
		name, value, ok := strings.Cut(strings.Trim(entry, " "), "=")
		if !ok {
			return &Error{Code: CodeMalformedHeader, Field: field}
		}
		switch name {
		case "t":
			at = value
			times++
		case "v1":
			if signature, ok := hexAfter(value, ""); ok {
				signatures = append(signatures, signature)
			}
		}
	}
	if times != 1 {
		return &Error{Code: CodeMalformedHeader, Field: field}
	}
	if at == "" {
		return &Error{Code: CodeInvalidTimestamp, Field: field}
	}
	if _, err := r.checkTime(field, at); err != nil {
		return err
	}
	m := r.sign(at, ".")
	for _, s := range signatures {
		m.try(s)
	}
	return m.verdict(field)
}

// Shopify verifies X-Shopify-Hmac-Sha256: the MAC of the body in base64. The secret is the
// app's client secret.
//
// Shopify signs no time. The event's id is in X-Shopify-Event-Id and that of the delivery,
// the same on each retry, in X-Shopify-Webhook-Id: good for DedupeHeader.
func Shopify(secrets ...string) SignatureVerifier {
	return newVerifier(scheme{name: "Shopify", verify: verifyShopify}, rawSecrets, secrets)
}

func verifyShopify(r request) error {
	const field = "x-shopify-hmac-sha256"
	header, err := r.required(field)
	if err != nil {
		return err
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(header)
	if err != nil || len(signature) != 32 {
		return &Error{Code: CodeMalformedHeader, Field: field}
	}
	m := r.sign()
	m.try(signature)
	return m.verdict(field)
}

// Slack verifies X-Slack-Signature: "v0=" and in hex the MAC of
// "v0:<X-Slack-Request-Timestamp>:<body>". The secret is the app's signing secret.
//
// A [Receiver] answers the url_verification that Slack sends when an address is entered.
func Slack(secrets ...string) SignatureVerifier {
	return newVerifier(scheme{name: "Slack", timed: true, verify: verifySlack, challenge: slackChallenge}, rawSecrets, secrets)
}

func verifySlack(r request) error {
	const timeField, field = "x-slack-request-timestamp", "x-slack-signature"
	at, err := r.required(timeField)
	if err != nil {
		return err
	}
	header, err := r.required(field)
	if err != nil {
		return err
	}
	signature, ok := hexAfter(header, "v0=")
	if !ok {
		return &Error{Code: CodeMalformedHeader, Field: field}
	}
	if _, err := r.checkTime(timeField, at); err != nil {
		return err
	}
	m := r.sign("v0:", at, ":")
	m.try(signature)
	return m.verdict(field)
}

// maxChallenge bounds the body of a handshake: an event of any size is not parsed for it.
const maxChallenge = 4096

func slackChallenge(body []byte) (string, bool) {
	if len(body) > maxChallenge || !bytes.Contains(body, []byte("url_verification")) {
		return "", false
	}
	var event struct {
		Type      string `json:"type"`
		Challenge string `json:"challenge"`
	}
	if json.Unmarshal(body, &event) != nil || event.Type != "url_verification" || event.Challenge == "" {
		return "", false
	}
	return event.Challenge, true
}

// hexAfter decodes the 32 bytes in hex, of either case, that follow prefix.
func hexAfter(s, prefix string) ([]byte, bool) {
	digits, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return nil, false
	}
	sum, err := hex.DecodeString(digits)
	return sum, err == nil && len(sum) == 32
}
