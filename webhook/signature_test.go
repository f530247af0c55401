package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/webhook"
)

// signatures is a table of deliveries and what is found; it seeds FuzzVerifySignature.
var signatures = []struct {
	name    string
	h       http.Header
	body    string
	secrets []string
	now     int64
	code    webhook.Code // "" is genuine
	field   string
}{
	{"the documented vector", standardHeader, standardBody, []string{standardSecret}, standardTime, "", ""},
	{"a secret of plain text, a binary body", header("webhook-id: msg_1", "webhook-timestamp: 1700000000", "webhook-signature: v1,"+plainSum), "\x00\xff", []string{"plain secret"}, 1700000000, "", ""},
	{"the second secret", standardHeader, standardBody, []string{"other", standardSecret}, standardTime, "", ""},
	{"300 s old", standardHeader, standardBody, []string{standardSecret}, standardTime + 300, "", ""},
	{"300 s ahead", standardHeader, standardBody, []string{standardSecret}, standardTime - 300, "", ""},
	{"the second entry", with(standardHeader, "webhook-signature: v1,AAAA v1,"+standardSum), standardBody, []string{standardSecret}, standardTime, "", ""},
	{"among entries of other versions", with(standardHeader, "webhook-signature: v1a,abc v2,"+standardSum+" v1,"+standardSum+" x"), standardBody, []string{standardSecret}, standardTime, "", ""},
	{"an empty entry between two blanks", with(standardHeader, "webhook-signature: v1,AAAA  v1,"+standardSum), standardBody, []string{standardSecret}, standardTime, "", ""},
	{"names in lower case", http.Header{"webhook-id": standardHeader["Webhook-Id"], "webhook-timestamp": standardHeader["Webhook-Timestamp"], "webhook-signature": standardHeader["Webhook-Signature"]}, standardBody, []string{standardSecret}, standardTime, "", ""},
	{"of a repeated header the first", http.Header{"Webhook-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek", "x"}, "Webhook-Timestamp": {"1614265330", "x"}, "Webhook-Signature": {"v1," + standardSum, "x"}}, standardBody, []string{standardSecret}, standardTime, "", ""},

	{"no secret", standardHeader, standardBody, nil, standardTime, webhook.CodeInvalidSecret, ""},
	{"an empty secret", standardHeader, standardBody, []string{""}, standardTime, webhook.CodeInvalidSecret, ""},
	{"an empty secret beside a good one", standardHeader, standardBody, []string{standardSecret, ""}, standardTime, webhook.CodeInvalidSecret, ""},
	{"whsec_ alone", standardHeader, standardBody, []string{"whsec_"}, standardTime, webhook.CodeInvalidSecret, ""},
	{"whsec_ without padding", standardHeader, standardBody, []string{"whsec_YQ"}, standardTime, webhook.CodeInvalidSecret, ""},
	{"whsec_ that is not canonical", standardHeader, standardBody, []string{"whsec_YR=="}, standardTime, webhook.CodeInvalidSecret, ""},
	{"whsec_ with a line break", standardHeader, standardBody, []string{"whsec_MfKQ9r8GKYqrTwjU\nPD8ILPZIo2LaLaSw"}, standardTime, webhook.CodeInvalidSecret, ""},
	{"whsec_ in the URL alphabet", standardHeader, standardBody, []string{"whsec_-_-_"}, standardTime, webhook.CodeInvalidSecret, ""},
	{"a bad secret goes before a missing header", nil, standardBody, []string{"whsec_"}, standardTime, webhook.CodeInvalidSecret, ""},

	{"nothing there: the id first", nil, standardBody, []string{standardSecret}, standardTime, webhook.CodeMissingHeader, "webhook-id"},
	{"an empty id", http.Header{"Webhook-Id": {""}}, standardBody, []string{standardSecret}, standardTime, webhook.CodeMissingHeader, "webhook-id"},
	{"an id that is not ASCII", with(standardHeader, "webhook-id: café"), standardBody, []string{standardSecret}, standardTime, webhook.CodeMissingHeader, "webhook-id"},
	{"then the timestamp", header("webhook-id: a"), standardBody, []string{standardSecret}, standardTime, webhook.CodeMissingHeader, "webhook-timestamp"},
	{"then the signature, before a bad timestamp", header("webhook-id: a", "webhook-timestamp: x"), standardBody, []string{standardSecret}, standardTime, webhook.CodeMissingHeader, "webhook-signature"},

	{"a timestamp with a sign", with(standardHeader, "webhook-timestamp: +1614265330"), standardBody, []string{standardSecret}, standardTime, webhook.CodeInvalidTimestamp, "webhook-timestamp"},
	{"a timestamp with a blank", with(standardHeader, "webhook-timestamp: 16142 65330"), standardBody, []string{standardSecret}, standardTime, webhook.CodeInvalidTimestamp, "webhook-timestamp"},
	{"a timestamp with an underscore", with(standardHeader, "webhook-timestamp: 16142_65330"), standardBody, []string{standardSecret}, standardTime, webhook.CodeInvalidTimestamp, "webhook-timestamp"},
	{"a timestamp of 65 bits", with(standardHeader, "webhook-timestamp: 18446744073709551616"), standardBody, []string{standardSecret}, standardTime, webhook.CodeInvalidTimestamp, "webhook-timestamp"},
	{"the largest of 64 bits is only far ahead", with(standardHeader, "webhook-timestamp: 18446744073709551615"), standardBody, []string{standardSecret}, standardTime, webhook.CodeTimestampOutOfTolerance, "webhook-timestamp"},
	{"301 s old", standardHeader, standardBody, []string{standardSecret}, standardTime + 301, webhook.CodeTimestampOutOfTolerance, "webhook-timestamp"},
	{"301 s ahead", standardHeader, standardBody, []string{standardSecret}, standardTime - 301, webhook.CodeTimestampOutOfTolerance, "webhook-timestamp"},

	{"another body", standardHeader, standardBody + "\n", []string{standardSecret}, standardTime, webhook.CodeNoMatchingSignature, "webhook-signature"},
	{"another id", with(standardHeader, "webhook-id: msg_2"), standardBody, []string{standardSecret}, standardTime, webhook.CodeNoMatchingSignature, "webhook-signature"},
	{"the time in other digits", with(standardHeader, "webhook-timestamp: 01614265330"), standardBody, []string{standardSecret}, standardTime, webhook.CodeNoMatchingSignature, "webhook-signature"},
	{"only other versions", with(standardHeader, "webhook-signature: v2,"+standardSum+" "+standardSum), standardBody, []string{standardSecret}, standardTime, webhook.CodeNoMatchingSignature, "webhook-signature"},
	{"entries are separated by blanks only", with(standardHeader, "webhook-signature: v2,a\tv1,"+standardSum), standardBody, []string{standardSecret}, standardTime, webhook.CodeNoMatchingSignature, "webhook-signature"},
	{"base64 that is not canonical", with(standardHeader, "webhook-signature: v1,"+strings.Replace(standardSum, "E=", "F=", 1)), standardBody, []string{standardSecret}, standardTime, webhook.CodeNoMatchingSignature, "webhook-signature"},
	{"the text of the secret in place of its key", standardHeader, standardBody, []string{strings.TrimPrefix(standardSecret, "whsec_")}, standardTime, webhook.CodeNoMatchingSignature, "webhook-signature"},
}

func TestVerifySignature(t *testing.T) {
	for _, tt := range signatures {
		t.Run(tt.name, func(t *testing.T) {
			got, err := webhook.VerifySignature(tt.h, []byte(tt.body), tt.secrets, time.Unix(tt.now, 0))
			checkError(t, err, tt.code, tt.field)
			want := webhook.Signed{}
			if tt.code == "" {
				for name, v := range tt.h {
					switch strings.ToLower(name) {
					case "webhook-id":
						want.ID = v[0]
					case "webhook-timestamp":
						seconds, err := strconv.ParseInt(v[0], 10, 64)
						if err != nil {
							t.Fatal(err)
						}
						want.Timestamp = time.Unix(seconds, 0).UTC()
					}
				}
			}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// signatureCode is the checks of VerifySignature word by word. Where it gets as far as that,
// it also returns the entry that would be right.
func signatureCode(id, at, signature, secret string, body []byte, now int64) (code webhook.Code, entry string) {
	key := []byte(secret)
	if encoded, ok := strings.CutPrefix(secret, "whsec_"); ok {
		key, _ = base64.StdEncoding.DecodeString(encoded)
		if base64.StdEncoding.EncodeToString(key) != encoded {
			return webhook.CodeInvalidSecret, ""
		}
	}
	if len(key) == 0 {
		return webhook.CodeInvalidSecret, ""
	}
	printable := regexp.MustCompile(`^[\t -~]+$`)
	if !printable.MatchString(id) || !printable.MatchString(at) || !printable.MatchString(signature) {
		return webhook.CodeMissingHeader, ""
	}
	if !regexp.MustCompile(`^[0-9]+$`).MatchString(at) {
		return webhook.CodeInvalidTimestamp, ""
	}
	seconds, _ := new(big.Int).SetString(at, 10)
	if seconds.BitLen() > 64 {
		return webhook.CodeInvalidTimestamp, ""
	}
	if d := new(big.Int).Sub(seconds, big.NewInt(now)); d.CmpAbs(big.NewInt(300)) > 0 {
		return webhook.CodeTimestampOutOfTolerance, ""
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	entry = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	if !slices.Contains(strings.Split(signature, " "), entry) {
		return webhook.CodeNoMatchingSignature, entry
	}
	return "", entry
}

func FuzzVerifySignature(f *testing.F) {
	for _, tt := range signatures {
		if len(tt.secrets) == 1 {
			f.Add(tt.h.Get("webhook-id"), tt.h.Get("webhook-timestamp"), tt.h.Get("webhook-signature"), tt.secrets[0], []byte(tt.body), tt.now)
		}
	}
	f.Fuzz(func(t *testing.T, id, at, signature, secret string, body []byte, now int64) {
		now &= 1<<40 - 1 // the years that clocks show
		check := func(signature string, want webhook.Code) {
			t.Helper()
			h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {at}, "Webhook-Signature": {signature}}
			_, err := webhook.VerifySignature(h, body, []string{secret}, time.Unix(now, 0))
			got := webhook.Code("")
			if err != nil {
				got = err.(*webhook.Error).Code
			}
			if got != want {
				t.Errorf("%q: got %q, want %q", signature, got, want)
			}
		}
		code, right := signatureCode(id, at, signature, secret, body, now)
		check(signature, code)
		if right != "" {
			check(right, "")
			check(signature+" "+right+" v1,", "")
		}
	})
}

func ExampleVerifySignature() {
	h := http.Header{}
	h.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	h.Set("webhook-timestamp", "1614265330")
	h.Set("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	body := []byte(`{"test": 2432232314}`)
	secrets := []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}

	signed, err := webhook.VerifySignature(h, body, secrets, time.Unix(1614265330, 0))
	fmt.Println(signed.ID, err)

	_, err = webhook.VerifySignature(h, body, secrets, time.Unix(1614265330+301, 0))
	fmt.Println(err)
	// Output:
	// msg_p5jXN8AQM9LWM0D4loKWxJek <nil>
	// webhook: timestamp_out_of_tolerance "webhook-timestamp"
}
