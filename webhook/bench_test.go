package webhook_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/webhook"
)

// discard is a Publisher that costs nothing.
type discard struct{}

func (discard) Publish(string, ...*message.Message) error { return nil }
func (discard) Close() error                              { return nil }

// gitHubRequest returns a signed request of GitHub's shape with a body of size bytes, and
// what makes it new again.
func gitHubRequest(size int) (r *http.Request, again func()) {
	body := bytes.Repeat([]byte("x"), size)
	mac := hmac.New(sha256.New, []byte(gitHubSecret))
	mac.Write(body)
	reader := bytes.NewReader(body)
	r = httptest.NewRequest(http.MethodPost, "/", reader)
	r.Header = header("Accept: */*", "Content-Type: application/json", "User-Agent: GitHub-Hookshot/044aadd",
		"X-Github-Delivery: 72d3162e-cc78-11e3-81ab-4c9367dc0958", "X-Github-Event: push", "X-Github-Hook-Id: 292430182",
		"X-Github-Hook-Installation-Target-Id: 79929171", "X-Github-Hook-Installation-Target-Type: repository",
		"X-Hub-Signature: sha1=7d38cdd689735b008b3c702edd92eea23791c5f6", "X-Hub-Signature-256: sha256="+hex.EncodeToString(mac.Sum(nil)))
	return r, func() { reader.Reset(body); r.Body = io.NopCloser(reader) }
}

func BenchmarkFromRequest(b *testing.B) {
	o := webhook.RequestOptions{Source: "github", Tenant: "acme", Verify: webhook.GitHub(gitHubSecret), DedupeHeader: "X-GitHub-Delivery"}
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		r, again := gitHubRequest(size)
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				again()
				if _, err := webhook.FromRequest(r, o); err != nil {
					b.Fatal(err)
				}
			}
		})
		again()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%dKiB floor (HMAC alone)", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				mac := hmac.New(sha256.New, []byte(gitHubSecret))
				mac.Write(body)
				mac.Sum(nil)
			}
		})
	}
}

func BenchmarkReceiver(b *testing.B) {
	rcv, err := webhook.NewReceiver(webhook.ReceiverConfig{
		Publisher: discard{}, Topic: "hooks",
		Request: webhook.RequestOptions{Source: "github", Tenant: "acme", Verify: webhook.GitHub(gitHubSecret), DedupeHeader: "X-GitHub-Delivery"},
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range []int{1 << 10, 64 << 10} {
		r, again := gitHubRequest(size)
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				again()
				w := httptest.NewRecorder()
				rcv.ServeHTTP(w, r)
				if w.Code != http.StatusAccepted {
					b.Fatal(w.Code)
				}
			}
		})
	}
}
