package claimcheck

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultClientTimeout is the Timeout of a [ClientConfig] that has none.
const DefaultClientTimeout = 10 * time.Second

// A ClientConfig says where a [Client] redeems, and how. BaseURL is required.
type ClientConfig struct {
	// BaseURL is where the gateway is: an absolute http or https URL, without user
	// information (use Header), query and fragment. A path is kept: it is the prefix under
	// which a proxy has the gateway.
	BaseURL string

	// Header is sent with each request, for what the gateway or a proxy before it asks:
	// Authorization, in the first place. It goes to BaseURL only, since no redirect is
	// followed. It may not have what the Client itself decides: Accept-Encoding, Range and
	// the headers of conditional requests. A Host in it is the Host of the requests.
	Header http.Header

	// Timeout is how long Redeem and Health may take, from connecting to the last byte; 0 is
	// [DefaultClientTimeout]. For Open it is how long the answer, and then each Read, may
	// take: a stream may go on for as long as it makes progress.
	Timeout time.Duration

	// HTTPClient is whose Transport makes the requests. Nil is one of the Client's own, which
	// goes through the proxies of the environment (HTTPS_PROXY, NO_PROXY, ...) as
	// [http.DefaultTransport] does. Its other fields have no part: a Client follows no
	// redirect, keeps no cookie, and has a Timeout of its own.
	HTTPClient *http.Client

	// MaxBodyBytes is the largest body that Redeem returns. Open is not limited by it. 0
	// means DefaultMaxBodyBytes, 64 MiB.
	MaxBodyBytes int64
}

// Validate returns everything that is wrong with c, joined, or nil. The text has no part of
// BaseURL or of a header's value.
func (c ClientConfig) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("claimcheck: ClientConfig."+format, args...))
	}
	if _, err := baseURL(c.BaseURL); err != nil {
		bad("BaseURL %w", err)
	}
	for name, values := range c.Header {
		switch canonical := http.CanonicalHeaderKey(name); {
		case !isHeaderName(name):
			bad("Header has the name %.80q, which can be none", name)
			continue
		case canonical == "Accept-Encoding", canonical == "Range", strings.HasPrefix(canonical, "If-"):
			bad("Header has %s, which the Client decides", canonical)
		}
		for _, v := range values {
			if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				bad("Header has a control character in a value of %s", name)
			}
		}
	}
	if c.Timeout < 0 {
		bad("Timeout is negative")
	}
	if c.MaxBodyBytes < 0 {
		bad("MaxBodyBytes is negative")
	}
	return errors.Join(errs...)
}

// String shows where the gateway is, and of the headers only how many there are.
func (c ClientConfig) String() string {
	base, err := baseURL(c.BaseURL)
	if err != nil {
		base = "<invalid>"
	}
	return fmt.Sprintf("claimcheck.ClientConfig(%s, %d headers)", base, len(c.Header))
}

// Format implements fmt.Formatter: no verb shows more than String.
func (c ClientConfig) Format(f fmt.State, _ rune) { io.WriteString(f, c.String()) }

// LogValue implements [slog.LogValuer].
func (c ClientConfig) LogValue() slog.Value { return slog.StringValue(c.String()) }

// baseURL returns what the path of a reference is put after. The error does not show s.
func baseURL(s string) (string, error) {
	if s == "" {
		return "", errors.New("is required")
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", errors.New("is not an absolute http or https URL")
	case u.User != nil:
		return "", errors.New("has user information: send it in Header")
	case strings.ContainsAny(s, "?#"):
		return "", errors.New("has a query or a fragment")
	}
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/"), nil
}

// isHeaderName reports whether s is a token (RFC 9110, section 5.6.2).
func isHeaderName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// newTransport returns a transport that is the process's default one where that is net/http's.
func newTransport() *http.Transport {
	t, ok := http.DefaultTransport.(*http.Transport)
	if ok {
		t = t.Clone()
	} else {
		t = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: 90 * time.Second}
	}
	t.DisableCompression = true
	t.MaxIdleConnsPerHost = 32 // all its requests go to one host
	t.MaxResponseHeaderBytes = 64 << 10
	return t
}
