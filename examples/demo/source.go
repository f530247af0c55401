package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/watermill-envelope/envelope/webhook"
)

// A source is a provider that hooks come from, under a path of its own.
type source struct {
	name       string
	env        string // the variable that holds the secret for real traffic
	testSecret string // the secret of the files in the requests directory: not a secret

	// How a request becomes an envelope.
	verify       func(secrets ...string) webhook.SignatureVerifier
	dedupeHeader string // that holds the provider's event key
	dedupe       func(http.Header, []byte) (string, error)

	// sign returns the headers of a signature that holds the time. It is nil where the
	// signature is of the body alone and stands in the file. It shares no code with verify.
	sign func(secret string, r *request, now time.Time) []header
}

var sources = []source{
	{
		name: "github", env: "GITHUB_WEBHOOK_SECRET", testSecret: "demo-github-secret",
		verify: webhook.GitHub, dedupeHeader: "X-GitHub-Delivery",
	},
	{
		name: "stripe", env: "STRIPE_WEBHOOK_SECRET", testSecret: "whsec_demo_stripe_secret",
		verify: webhook.Stripe, dedupe: stripeEventID, sign: signStripe,
	},
	{
		name: "shopify", env: "SHOPIFY_WEBHOOK_SECRET", testSecret: "demo-shopify-secret",
		verify: webhook.Shopify, dedupeHeader: "X-Shopify-Webhook-Id",
	},
	{
		name: "slack", env: "SLACK_SIGNING_SECRET", testSecret: "demo-slack-secret",
		verify: webhook.Slack, sign: signSlack,
	},
	{
		name: "standard", env: "STANDARD_WEBHOOKS_SECRET", testSecret: "whsec_ZGVtby1zdGFuZGFyZC13ZWJob29rcy1zZWNyZXQ=",
		verify: webhook.StandardWebhooks, dedupeHeader: "webhook-id", sign: signStandard,
	},
}

// maxBodyBytes is the largest body that is taken: what a broker takes is no limit here.
const maxBodyBytes = 32 << 20

// options are how a request of s becomes an envelope.
func (s source) options(secret string) webhook.RequestOptions {
	return webhook.RequestOptions{
		Source:       s.name,
		MaxBodyBytes: maxBodyBytes,
		Tenant:       tenant,
		Verify:       s.verify(secret),
		DedupeHeader: s.dedupeHeader,
		DedupeFunc:   s.dedupe,
	}
}

// stripeEventID finds the event key, which Stripe sends in the body only. A body without
// one has no event key.
func stripeEventID(_ http.Header, body []byte) (string, error) {
	var event struct{ ID string }
	_ = json.Unmarshal(body, &event)
	return event.ID, nil
}

func sourceOf(path string) source {
	for _, s := range sources {
		if path == "/"+s.name {
			return s
		}
	}
	return source{}
}

func signStripe(secret string, r *request, now time.Time) []header {
	t := unix(now)
	return []header{{"Stripe-Signature", "t=" + t + ",v1=" + hex.EncodeToString(mac(secret, t, ".", string(r.body)))}}
}

func signSlack(secret string, r *request, now time.Time) []header {
	t := unix(now)
	return []header{
		{"X-Slack-Request-Timestamp", t},
		{"X-Slack-Signature", "v0=" + hex.EncodeToString(mac(secret, "v0:", t, ":", string(r.body)))},
	}
}

func signStandard(secret string, r *request, now time.Time) []header {
	t := unix(now)
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		panic(err) // the constant above
	}
	sum := mac(string(key), r.get("webhook-id"), ".", t, ".", string(r.body))
	return []header{
		{"webhook-timestamp", t},
		{"webhook-signature", "v1," + base64.StdEncoding.EncodeToString(sum)},
	}
}

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

func mac(key string, parts ...string) []byte {
	h := hmac.New(sha256.New, []byte(key))
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}
