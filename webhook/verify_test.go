package webhook_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/webhook"
)

// header makes headers of "name: value" texts, as a server would have them.
func header(texts ...string) http.Header {
	h := http.Header{}
	for _, t := range texts {
		name, value, _ := strings.Cut(t, ": ")
		h.Add(name, value)
	}
	return h
}

// at returns v with a clock that stands still.
func at(seconds int64, v webhook.SignatureVerifier) webhook.SignatureVerifier {
	v.Now = func() time.Time { return time.Unix(seconds, 999_999_999) } // only whole seconds count
	return v
}

const (
	// GitHub's documented vector ("Testing the webhook payload validation").
	gitHubSecret = "It's a Secret to Everybody"
	gitHubBody   = "Hello, World!"
	gitHubSum    = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

	// Slack's documented vector ("Verifying requests from Slack").
	slackSecret = "8f742231b10e8888abcd99yyyzzz85a5"
	slackTime   = 1531420618
	slackBody   = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V" +
		"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=" +
		"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN" +
		"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	slackSum = "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"

	// The documented vector of Standard Webhooks and its reference libraries.
	standardSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	standardTime   = 1614265330
	standardBody   = `{"test": 2432232314}`
	standardSum    = "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

	// printf '1492774577.{"id":"evt_1","object":"event"}' | openssl dgst -sha256 -hmac whsec_test_secret
	stripeSecret = "whsec_test_secret"
	stripeTime   = 1492774577
	stripeBody   = `{"id":"evt_1","object":"event"}`
	stripeSum    = "654b43d3508ecadb3f8cefc4bc7d3d2bdc5ba9e03bf2c89b2d0657a8e24e4543"
	// the same with -hmac whsec_old_secret
	stripeOldSum = "6ff3bb574686a5e06ed372dd22beab15e045c7d15c6c1b70f8ccbf8d3f230fe8"

	// printf '{"id":820982911946154508,"email":"jon@example.com","name":"Jos\303\251"}' | openssl dgst -sha256 -hmac hush -binary | base64
	shopifySecret = "hush"
	shopifyBody   = `{"id":820982911946154508,"email":"jon@example.com","name":"José"}`
	shopifySum    = "Ea0hU+6seTmAl1dMeZZ7ef/b1odXm9ExjXX+Qx/n61s="

	// printf 'msg_1.1700000000.\000\377' | openssl dgst -sha256 -hmac 'plain secret' -binary | base64
	plainSum = "cW7DomO87ozjJ+o0INlJD6xmP7DC62mh4Ix8Y/IQoTM="
)

var (
	gitHubHeader   = header("X-Hub-Signature-256: sha256=" + gitHubSum)
	stripeHeader   = header("Stripe-Signature: t=1492774577,v1=" + stripeSum + ",v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39")
	shopifyHeader  = header("X-Shopify-Hmac-Sha256: " + shopifySum)
	slackHeader    = header("X-Slack-Request-Timestamp: 1531420618", "X-Slack-Signature: v0="+slackSum)
	standardHeader = header("webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp: 1614265330", "webhook-signature: v1,"+standardSum)
)

// with returns h with the named headers replaced, or removed when the value is empty.
func with(h http.Header, texts ...string) http.Header {
	h = h.Clone()
	for _, t := range texts {
		name, value, _ := strings.Cut(t, ": ")
		h.Del(name)
		if value != "" {
			h.Set(name, value)
		}
	}
	return h
}

func TestVerifiers(t *testing.T) {
	const (
		missing   = webhook.CodeMissingHeader
		malformed = webhook.CodeMalformedHeader
		noTime    = webhook.CodeInvalidTimestamp
		tooOld    = webhook.CodeTimestampOutOfTolerance
		noMatch   = webhook.CodeNoMatchingSignature
	)
	strict := webhook.Slack(slackSecret)
	strict.Tolerance = 2 * time.Second
	tests := []struct {
		name  string
		v     webhook.SignatureVerifier
		h     http.Header
		body  string
		code  webhook.Code // "" is genuine
		field string
	}{
		{"github: the documented vector", webhook.GitHub(gitHubSecret), gitHubHeader, gitHubBody, "", ""},
		{"github: the second of two secrets", webhook.GitHub("new", gitHubSecret), gitHubHeader, gitHubBody, "", ""},
		{"github: hex in upper case", webhook.GitHub(gitHubSecret), header("X-Hub-Signature-256: sha256=" + strings.ToUpper(gitHubSum)), gitHubBody, "", ""},
		{"github: a map with other letter case", webhook.GitHub(gitHubSecret), http.Header{"x-hub-signature-256": {"sha256=" + gitHubSum}}, gitHubBody, "", ""},
		{"github: another body", webhook.GitHub(gitHubSecret), gitHubHeader, "Hello, World?", noMatch, "x-hub-signature-256"},
		{"github: another secret", webhook.GitHub("secret"), gitHubHeader, gitHubBody, noMatch, "x-hub-signature-256"},
		{"github: no header", webhook.GitHub(gitHubSecret), header("X-Hub-Signature: sha1=00"), gitHubBody, missing, "x-hub-signature-256"},
		{"github: an empty header", webhook.GitHub(gitHubSecret), http.Header{"X-Hub-Signature-256": {""}}, gitHubBody, missing, "x-hub-signature-256"},
		{"github: only the first of several counts", webhook.GitHub(gitHubSecret), header("X-Hub-Signature-256: sha256="+strings.Repeat("0", 64), "X-Hub-Signature-256: sha256="+gitHubSum), gitHubBody, noMatch, "x-hub-signature-256"},
		{"github: no prefix", webhook.GitHub(gitHubSecret), header("X-Hub-Signature-256: " + gitHubSum), gitHubBody, malformed, "x-hub-signature-256"},
		{"github: another algorithm", webhook.GitHub(gitHubSecret), header("X-Hub-Signature-256: sha512=" + gitHubSum), gitHubBody, malformed, "x-hub-signature-256"},
		{"github: no hex", webhook.GitHub(gitHubSecret), header("X-Hub-Signature-256: sha256=" + strings.Repeat("g", 64)), gitHubBody, malformed, "x-hub-signature-256"},
		{"github: too short", webhook.GitHub(gitHubSecret), header("X-Hub-Signature-256: sha256=" + gitHubSum[:62]), gitHubBody, malformed, "x-hub-signature-256"},
		{"github: too long", webhook.GitHub(gitHubSecret), header("X-Hub-Signature-256: sha256=" + gitHubSum + "00"), gitHubBody, malformed, "x-hub-signature-256"},

		{"stripe: signed", at(stripeTime, webhook.Stripe(stripeSecret)), stripeHeader, stripeBody, "", ""},
		{"stripe: the old of two secrets", at(stripeTime, webhook.Stripe(stripeSecret, "whsec_old_secret")), header("Stripe-Signature: t=1492774577,v1=" + stripeOldSum), stripeBody, "", ""},
		{"stripe: two signatures, the second ours", at(stripeTime, webhook.Stripe(stripeSecret)), header("Stripe-Signature: t=1492774577,v1=" + stripeOldSum + ",v1=" + stripeSum), stripeBody, "", ""},
		{"stripe: any order, blanks", at(stripeTime, webhook.Stripe(stripeSecret)), header("Stripe-Signature: v1=" + stripeSum + ", t=1492774577"), stripeBody, "", ""},
		{"stripe: a v1 that is no signature beside ours", at(stripeTime, webhook.Stripe(stripeSecret)), header("Stripe-Signature: t=1492774577,v1=zz,v1=" + stripeSum), stripeBody, "", ""},
		{"stripe: 300 s old", at(stripeTime+300, webhook.Stripe(stripeSecret)), stripeHeader, stripeBody, "", ""},
		{"stripe: 301 s old", at(stripeTime+301, webhook.Stripe(stripeSecret)), stripeHeader, stripeBody, tooOld, "stripe-signature"},
		{"stripe: 300 s ahead", at(stripeTime-300, webhook.Stripe(stripeSecret)), stripeHeader, stripeBody, "", ""},
		{"stripe: 301 s ahead", at(stripeTime-301, webhook.Stripe(stripeSecret)), stripeHeader, stripeBody, tooOld, "stripe-signature"},
		{"stripe: no header", at(stripeTime, webhook.Stripe(stripeSecret)), nil, stripeBody, missing, "stripe-signature"},
		{"stripe: another body", at(stripeTime, webhook.Stripe(stripeSecret)), stripeHeader, stripeBody + " ", noMatch, "stripe-signature"},
		{"stripe: another time than was signed", at(stripeTime, webhook.Stripe(stripeSecret)), header("Stripe-Signature: t=1492774578,v1=" + stripeSum), stripeBody, noMatch, "stripe-signature"},
		{"stripe: the same time in other digits", at(stripeTime, webhook.Stripe(stripeSecret)), header("Stripe-Signature: t=01492774577,v1=" + stripeSum), stripeBody, noMatch, "stripe-signature"},
		{"stripe: only v0", at(stripeTime, webhook.Stripe(stripeSecret)), header("Stripe-Signature: t=1492774577,v0=" + stripeSum), stripeBody, noMatch, "stripe-signature"},
		{"stripe: no time", at(stripeTime, webhook.Stripe(stripeSecret)), header("Stripe-Signature: v1=" + stripeSum), stripeBody, malformed, "stripe-signature"},
		{"stripe: two times", at(stripeTime, webhook.Stripe(stripeSecret)), header("Stripe-Signature: t=1492774577,t=1492774577,v1=" + stripeSum), stripeBody, malformed, "stripe-signature"},
		{"stripe: no pairs", at(stripeTime, webhook.Stripe(stripeSecret)), header("Stripe-Signature: t=1492774577," + stripeSum), stripeBody, malformed, "stripe-signature"},
		{"stripe: an empty time", at(stripeTime, webhook.Stripe(stripeSecret)), header("Stripe-Signature: t=,v1=" + stripeSum), stripeBody, noTime, "stripe-signature"},
		{"stripe: a negative time", at(stripeTime, webhook.Stripe(stripeSecret)), header("Stripe-Signature: t=-1,v1=" + stripeSum), stripeBody, noTime, "stripe-signature"},

		{"shopify: signed", webhook.Shopify(shopifySecret), shopifyHeader, shopifyBody, "", ""},
		{"shopify: the second of two secrets", webhook.Shopify("new", shopifySecret), shopifyHeader, shopifyBody, "", ""},
		{"shopify: another body", webhook.Shopify(shopifySecret), shopifyHeader, "", noMatch, "x-shopify-hmac-sha256"},
		{"shopify: no header", webhook.Shopify(shopifySecret), nil, shopifyBody, missing, "x-shopify-hmac-sha256"},
		{"shopify: hex", webhook.Shopify(shopifySecret), header("X-Shopify-Hmac-Sha256: " + gitHubSum), shopifyBody, malformed, "x-shopify-hmac-sha256"},
		{"shopify: no padding", webhook.Shopify(shopifySecret), header("X-Shopify-Hmac-Sha256: " + strings.TrimSuffix(shopifySum, "=")), shopifyBody, malformed, "x-shopify-hmac-sha256"},
		{"shopify: bits after the end", webhook.Shopify(shopifySecret), header("X-Shopify-Hmac-Sha256: " + strings.Replace(shopifySum, "s=", "t=", 1)), shopifyBody, malformed, "x-shopify-hmac-sha256"},

		{"slack: the documented vector", at(slackTime, webhook.Slack(slackSecret)), slackHeader, slackBody, "", ""},
		{"slack: the second of two secrets", at(slackTime, webhook.Slack("new", slackSecret)), slackHeader, slackBody, "", ""},
		{"slack: 300 s old", at(slackTime+300, webhook.Slack(slackSecret)), slackHeader, slackBody, "", ""},
		{"slack: 301 s old", at(slackTime+301, webhook.Slack(slackSecret)), slackHeader, slackBody, tooOld, "x-slack-request-timestamp"},
		{"slack: 301 s ahead", at(slackTime-301, webhook.Slack(slackSecret)), slackHeader, slackBody, tooOld, "x-slack-request-timestamp"},
		{"slack: within a tolerance of its own", at(slackTime+2, strict), slackHeader, slackBody, "", ""},
		{"slack: outside it", at(slackTime+3, strict), slackHeader, slackBody, tooOld, "x-slack-request-timestamp"},
		{"slack: a replay today", webhook.Slack(slackSecret), slackHeader, slackBody, tooOld, "x-slack-request-timestamp"},
		{"slack: no time", at(slackTime, webhook.Slack(slackSecret)), with(slackHeader, "X-Slack-Request-Timestamp: "), slackBody, missing, "x-slack-request-timestamp"},
		{"slack: no signature", at(slackTime, webhook.Slack(slackSecret)), with(slackHeader, "X-Slack-Signature: "), slackBody, missing, "x-slack-signature"},
		{"slack: another version", at(slackTime, webhook.Slack(slackSecret)), with(slackHeader, "X-Slack-Signature: v1="+slackSum), slackBody, malformed, "x-slack-signature"},
		{"slack: a time with a fraction", at(slackTime, webhook.Slack(slackSecret)), with(slackHeader, "X-Slack-Request-Timestamp: 1531420618.0"), slackBody, noTime, "x-slack-request-timestamp"},
		{"slack: a time of 65 bits", at(slackTime, webhook.Slack(slackSecret)), with(slackHeader, "X-Slack-Request-Timestamp: 18446744073709551616"), slackBody, noTime, "x-slack-request-timestamp"},
		{"slack: another time than was signed", at(slackTime, webhook.Slack(slackSecret)), with(slackHeader, "X-Slack-Request-Timestamp: 1531420619"), slackBody, noMatch, "x-slack-signature"},
		{"slack: another body", at(slackTime, webhook.Slack(slackSecret)), slackHeader, slackBody[1:], noMatch, "x-slack-signature"},

		{"standard: the documented vector", at(standardTime, webhook.StandardWebhooks(standardSecret)), standardHeader, standardBody, "", ""},
		{"standard: another body", at(standardTime, webhook.StandardWebhooks(standardSecret)), standardHeader, "", noMatch, "webhook-signature"},
		{"standard: 301 s old", at(standardTime+301, webhook.StandardWebhooks(standardSecret)), standardHeader, standardBody, tooOld, "webhook-timestamp"},

		{"the zero value", webhook.SignatureVerifier{}, gitHubHeader, gitHubBody, webhook.CodeInvalidSecret, ""},
		{"no secret", webhook.GitHub(), gitHubHeader, gitHubBody, webhook.CodeInvalidSecret, ""},
		{"an empty secret beside a good one", webhook.GitHub(gitHubSecret, ""), gitHubHeader, gitHubBody, webhook.CodeInvalidSecret, ""},
		{"stripe: an empty secret", at(stripeTime, webhook.Stripe("")), stripeHeader, stripeBody, webhook.CodeInvalidSecret, ""},
		{"slack: no secret", at(slackTime, webhook.Slack()), slackHeader, slackBody, webhook.CodeInvalidSecret, ""},
		{"shopify: an empty secret", webhook.Shopify(""), shopifyHeader, shopifyBody, webhook.CodeInvalidSecret, ""},
		{"standard: a secret that is no base64", at(standardTime, webhook.StandardWebhooks("whsec_*")), standardHeader, standardBody, webhook.CodeInvalidSecret, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := []byte(tt.body)
			before := tt.h.Clone()
			checkError(t, tt.v.Verify(tt.h, body), tt.code, tt.field)
			if string(body) != tt.body || fmt.Sprint(tt.h) != fmt.Sprint(before) {
				t.Error("the request was changed")
			}
		})
	}
}

// checkError fails unless err is an Error with code and field, permanent, and without a
// trace of what was signed; or nil when code is empty.
func checkError(t *testing.T, err error, code webhook.Code, field string) {
	t.Helper()
	if code == "" {
		if err != nil {
			t.Errorf("got %v, want no error", err)
		}
		return
	}
	var e *webhook.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an Error with %s", err, code)
	}
	if e.Code != code || e.Field != field {
		t.Errorf("got %s %q, want %s %q", e.Code, e.Field, code, field)
	}
	if !envelope.IsPermanent(err) {
		t.Errorf("%v is not permanent", err)
	}
	for _, secret := range []string{gitHubSecret, gitHubSum, slackSum, stripeSum, shopifySum, standardSum, standardSecret, "Hello"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the text shows what it must not: %v", err)
		}
	}
}

func TestSignatureVerifierValidate(t *testing.T) {
	tolerant := func(v webhook.SignatureVerifier, d time.Duration) webhook.SignatureVerifier {
		v.Tolerance = d
		return v
	}
	tests := []struct {
		name string
		v    webhook.SignatureVerifier
		want string // "" is valid
	}{
		{"one secret", webhook.GitHub("a"), ""},
		{"two secrets", webhook.Shopify("a", "b"), ""},
		{"a tolerance", tolerant(webhook.Stripe("a"), time.Hour), ""},
		{"the zero value", webhook.SignatureVerifier{}, "invalid_secret"},
		{"none", webhook.Slack(), "Slack: webhook: invalid_secret: no secret"},
		{"an empty one", webhook.Stripe("a", ""), "Stripe: webhook: invalid_secret: empty secret"},
		{"no base64", webhook.StandardWebhooks("whsec_a"), "base64"},
		{"a negative tolerance", tolerant(webhook.Stripe("a"), -1), "negative Tolerance"},
		{"a tolerance where there is no time: GitHub", tolerant(webhook.GitHub("a"), 1), "signs no time"},
		{"a tolerance where there is no time: Shopify", tolerant(webhook.Shopify("a"), 1), "signs no time"},
	}
	for _, tt := range tests {
		err := tt.v.Validate()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	err := tolerant(webhook.GitHub(""), -1).Validate()
	for _, want := range []string{"empty secret", "negative", "signs no time"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want all mistakes, %q among them", err, want)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	type hidden struct{ v webhook.SignatureVerifier } // fmt cannot call methods here
	v := webhook.GitHub("hush-hush")
	o := webhook.RequestOptions{Source: "s", Verify: v}
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("", "v", v, "o", o)
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("", "v", v)
	for _, s := range []string{
		fmt.Sprintf("%v %+v %#v %s %q %x %d", v, v, v, v, v, v, v),
		fmt.Sprintf("%v %+v %#v", o, o, o),
		fmt.Sprintf("%v %+v %#v", &o, &o, &o),
		fmt.Sprintf("%v %+v %#v", hidden{v}, hidden{v}, hidden{v}),
		logged.String(),
	} {
		for _, secret := range []string{"hush", fmt.Sprintf("%x", "hush"), "104 117 115 104", "0x68, 0x75"} {
			if strings.Contains(s, secret) {
				t.Errorf("%q shows the secret", s)
			}
		}
	}
	if got, want := v.String(), "webhook.GitHub(<1 secrets>)"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}

func TestSecretsAreCopied(t *testing.T) {
	secrets := []string{gitHubSecret}
	v := webhook.GitHub(secrets...)
	secrets[0] = ""
	if err := v.Verify(gitHubHeader, []byte(gitHubBody)); err != nil {
		t.Errorf("the caller's slice is used: %v", err)
	}
}

func ExampleGitHub() {
	h := http.Header{}
	h.Set("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")

	// While a secret is rotated, both are good.
	v := webhook.GitHub("the new secret", "It's a Secret to Everybody")
	fmt.Println(v.Verify(h, []byte("Hello, World!")))
	fmt.Println(v.Verify(h, []byte("Hello, Mallory!")))
	// Output:
	// <nil>
	// webhook: no_matching_signature "x-hub-signature-256"
}
