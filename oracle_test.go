package envelope_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/watermill-envelope/envelope"
)

// oracle is a second reader, made for being obviously right: encoding/json splits the text,
// and what encoding/json lets through or changes is checked by hand. It returns the
// envelope, or the code and field of the first check that fails.
func oracle(data []byte) (e *envelope.Envelope, code envelope.Code, field string) {
	if !oracleJSON(data) {
		return nil, envelope.CodeInvalidJSON, ""
	}
	if bytes.TrimLeft(data, " \t\r\n")[0] != '{' {
		return nil, envelope.CodeNotAnObject, ""
	}
	m := make(map[string]string)
	e = &envelope.Envelope{}
	var unknown []string
	for _, member := range oracleMembers(data) {
		m[member.name] = member.value
		if !slices.Contains(memberNames, member.name) {
			unknown = append(unknown, member.text)
		}
	}
	if unknown != nil {
		e.Unknown = []byte("{" + strings.Join(unknown, ",") + "}")
	}
	if v, ok := oracleInteger(m["v"]); !ok || v != 1 && v != 2 {
		return nil, envelope.CodeUnsupportedVersion, ""
	}
	if field = oracleFields(e, m); field != "" {
		return nil, envelope.CodeInvalidField, field
	}
	code, field = oracleBody(e, m)
	if code != "" {
		return nil, code, field
	}
	return e, "", ""
}

// oracleJSON reports whether data is JSON as the wire format understands it.
func oracleJSON(data []byte) bool {
	if !utf8.Valid(data) || !json.Valid(data) {
		return false
	}
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\' && data[i+1] == 'u':
			r, _ := strconv.ParseUint(string(data[i+2:i+6]), 16, 16)
			i += 5
			if 0xdc00 <= r && r < 0xe000 {
				return false
			}
			if 0xd800 <= r && r < 0xdc00 {
				if !bytes.HasPrefix(data[i+1:], []byte(`\u`)) {
					return false
				}
				low, _ := strconv.ParseUint(string(data[i+3:i+7]), 16, 16)
				if low < 0xdc00 || low >= 0xe000 {
					return false
				}
				i += 6
			}
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > 127 {
				return false
			}
		case c == '}' || c == ']':
			depth--
		case c == '-' || '0' <= c && c <= '9':
			n := bytes.IndexFunc(data[i:], func(r rune) bool { return !strings.ContainsRune("+-.0123456789eE", r) })
			if n < 0 {
				n = len(data) - i
			}
			if _, err := strconv.ParseFloat(string(data[i:i+n]), 64); err != nil {
				return false
			}
			i += n - 1
		}
	}
	return true
}

// A jsonMember is a member of an object: its name, the text of its value, and its own text.
type jsonMember struct{ name, value, text string }

// oracleMembers returns the members of the object in data, which is JSON.
func oracleMembers(data []byte) []jsonMember {
	d := json.NewDecoder(bytes.NewReader(data))
	token := func() json.Token {
		t, err := d.Token()
		if err != nil {
			panic(err)
		}
		return t
	}
	token()
	var all []jsonMember
	for d.More() {
		start := d.InputOffset() // behind the brace or the value before
		start += int64(bytes.IndexByte(data[start:], '"'))
		name := token().(string)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			panic(err)
		}
		all = append(all, jsonMember{name, string(value), string(data[start:d.InputOffset()])})
	}
	return all
}

func oracleInteger(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && text != "-0" && text[0] != '+'
}

func oracleString(text string) (string, bool) {
	if !strings.HasPrefix(text, `"`) {
		return "", false
	}
	var s string
	err := json.Unmarshal([]byte(text), &s)
	return s, err == nil
}

// oracleStrings returns the strings of an object where each name's last value is one.
func oracleStrings(text string) ([]envelope.Header, bool) {
	if !strings.HasPrefix(text, "{") {
		return nil, false
	}
	var all []envelope.Header
	last := map[string]bool{}
	for _, m := range oracleMembers([]byte(text)) {
		value, ok := oracleString(m.value)
		last[m.name] = ok
		if !ok {
			continue
		}
		if i := slices.IndexFunc(all, func(h envelope.Header) bool { return h.Name == m.name }); i >= 0 {
			all[i].Value = value
		} else {
			all = append(all, envelope.Header{Name: m.name, Value: value})
		}
	}
	for _, ok := range last {
		if !ok {
			return nil, false
		}
	}
	return all, true
}

// oracleFields sets what is not the body, and returns the name of the first field at fault.
func oracleFields(e *envelope.Envelope, m map[string]string) string {
	var ok bool
	if e.ID, ok = oracleString(m["id"]); !ok || e.ID == "" {
		return "id"
	}
	if e.SourceID, ok = oracleString(m["source_id"]); !ok {
		return "source_id"
	}
	at, ok := oracleInteger(m["received_at"])
	if !ok {
		return "received_at"
	}
	e.ReceivedAt = time.UnixMilli(at).UTC()
	if e.Size, ok = oracleInteger(m["size"]); !ok || e.Size < 0 {
		return "size"
	}
	for _, f := range []struct {
		name string
		set  *string
	}{
		{"tenant_id", &e.TenantID},
		{"content_type", &e.ContentType},
		{"dedupe_key", &e.DedupeKey},
		{"replay_id", &e.ReplayID},
		{"idempotency_key", &e.IdempotencyKey},
		{"traceparent", &e.Traceparent},
		{"tracestate", &e.Tracestate},
		{"instance", &e.Instance},
		{"region", &e.Region},
	} {
		if *f.set, ok = oracleString(m[f.name]); !ok && !none(m[f.name]) {
			return f.name
		}
	}
	if e.Headers, ok = oracleStrings(m["headers"]); !ok && !none(m["headers"]) {
		return "headers"
	}
	if e.SHA256, _ = oracleString(m["sha256"]); !none(m["sha256"]) && !regexp.MustCompile(`\A[0-9a-f]{64}\z`).MatchString(e.SHA256) {
		return "sha256"
	}
	if v := m["verification"]; !none(v) {
		if v[0] != '{' {
			return "verification"
		}
		last := make(map[string]string)
		for _, member := range oracleMembers([]byte(v)) {
			last[member.name] = member.value
		}
		status, ok := oracleString(last["status"])
		if !ok || status == "" || last["flagged"] != "true" && last["flagged"] != "false" {
			return "verification"
		}
		e.Verification = envelope.Verification{Status: envelope.VerificationStatus(status), Flagged: last["flagged"] == "true"}
	}
	e.OrderingKey, _ = oracleString(m["ordering_key"])
	metadata, _ := oracleStrings(m["watermill_metadata"])
	for _, entry := range metadata {
		if oracleIsUsers(e, entry) {
			if e.Metadata == nil {
				e.Metadata = make(map[string]string)
			}
			e.Metadata[entry.Name] = entry.Value
		}
	}
	return ""
}

// oracleIsUsers reports whether an entry of watermill_metadata is not ours.
func oracleIsUsers(e *envelope.Envelope, entry envelope.Header) bool {
	valid := regexp.MustCompile(`\A[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?\z`).MatchString(entry.Value)
	switch lower := strings.ToLower(entry.Name); {
	case entry.Name == "traceparent" && e.Traceparent == "" && entry.Value != "" && !valid:
		return true
	case entry.Name == "tracestate" && e.Tracestate == "" && entry.Value != "" && !envelope.ValidTraceparent(e.Traceparent):
		return true
	case lower == "traceparent", lower == "tracestate", strings.HasPrefix(lower, "ankusa_"), strings.HasPrefix(lower, "envelope_"):
		return false
	}
	return !slices.Contains([]string{
		"_watermill_message_uuid", "_watermill_amqp_redelivered", "_watermill_message_google_message_id", "publishTime",
	}, entry.Name)
}

// none reports whether a member is absent or null.
func none(text string) bool { return text == "" || text == "null" }

var oracleRef = regexp.MustCompile(`\Aurn:ankusa:claim:v(?:1:([A-Za-z0-9_-]{1,64}):[0-7][0-9A-HJKMNP-TV-Z]{25}` +
	`|2:([A-Za-z0-9_-]{1,64}):[0-7][0-9A-HJKMNP-TV-Z]{25}:[1-9][0-9]{0,11}:[A-Za-z0-9_-]{43})\z`)

func oracleBody(e *envelope.Envelope, m map[string]string) (code envelope.Code, field string) {
	body, claim := m["body_base64"], m["claim"]
	switch {
	case none(body) && none(claim):
		return envelope.CodeMissingBody, ""
	case !none(body) && !none(claim):
		return envelope.CodeAmbiguousBody, ""
	case !none(claim):
		e.Claim, _ = oracleString(claim)
		match := oracleRef.FindStringSubmatch(e.Claim)
		if match == nil {
			return envelope.CodeInvalidField, "claim"
		}
		if e.SHA256 == "" {
			return envelope.CodeInvalidField, "sha256"
		}
		if !none(m["tenant_id"]) && e.TenantID != match[1]+match[2] {
			return envelope.CodeTenantMismatch, ""
		}
		return "", ""
	}
	text, ok := oracleString(body)
	decoded, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || base64.StdEncoding.EncodeToString(decoded) != text {
		return envelope.CodeInvalidBodyBase64, ""
	}
	if e.Body = decoded; int64(len(decoded)) != e.Size {
		return envelope.CodeSizeMismatch, ""
	}
	if sum := sha256.Sum256(decoded); e.SHA256 != "" && hex.EncodeToString(sum[:]) != e.SHA256 {
		return envelope.CodeIntegrity, ""
	}
	return "", ""
}
