package envelope_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope"
)

// wireText writes the smallest message (body "hello") with changes: pairs of a member name
// and the text of its value. A new name is put before the body, and the text "" leaves the
// member out.
func wireText(changes ...string) string {
	members := [][2]string{
		{"v", `1`}, {"id", `"a"`}, {"source_id", `"s"`}, {"received_at", `1`}, {"size", `5`}, {"body_base64", `"aGVsbG8="`},
	}
	for i := 0; i < len(changes); i += 2 {
		name, text := changes[i], changes[i+1]
		at := slices.IndexFunc(members, func(m [2]string) bool { return m[0] == name })
		switch {
		case at < 0:
			members = slices.Insert(members, len(members)-1, [2]string{name, text})
		case text == "":
			members = slices.Delete(members, at, at+1)
		default:
			members[at][1] = text
		}
	}
	var b strings.Builder
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\"%s\":%s", m[0], m[1])
	}
	return "{" + b.String() + "}"
}

// claimText is wireText in the claim form.
func claimText(changes ...string) string {
	return wireText(append([]string{"body_base64", "", "claim", quoted(ref), "sha256", quoted(helloDigest)}, changes...)...)
}

const (
	ref         = "urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y002"
	signedRef   = "urn:ankusa:claim:v2:acme:01M39VMD8RA3C5HR4RBV67Y002:1737500000:abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ"
	helloDigest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
)

// quoted is s between quotes, as it is.
func quoted(s string) string { return `"` + s + `"` }

// nested is n arrays in each other.
func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// A refusal is a text that is not read, and why.
type refusal struct {
	reason string
	text   string
	code   envelope.Code
	field  string
}

// refusals has every check of reading, in the order of the checks.
func refusals() []refusal {
	var all []refusal
	add := func(code envelope.Code, field, reason, text string) {
		all = append(all, refusal{reason, text, code, field})
	}
	notJSON := func(reason, text string) { add(envelope.CodeInvalidJSON, "", reason, text) }
	good := wireText()

	notJSON("empty input", "")
	notJSON("only space", " \t\r\n")
	notJSON("cut short", good[:len(good)-1])
	notJSON("text after the object", good+"x")
	notJSON("a second object", good+good)
	notJSON("a comma after the object", good+",")
	notJSON("NUL after the object", good+"\x00")
	notJSON("byte order mark", "\ufeff"+good)
	notJSON("byte order mark behind", good+"\ufeff")
	notJSON("no-break space", "\u00a0"+good)
	notJSON("form feed is no JSON space", "\f"+good)
	notJSON("UTF-16", "{\x00}\x00")
	notJSON("comment", "/**/"+good)
	notJSON("trailing comma", strings.TrimSuffix(good, "}")+",}")
	notJSON("leading comma", "{,"+good[1:])
	notJSON("missing comma", strings.Replace(good, ",", " ", 1))
	notJSON("missing colon", strings.Replace(good, ":", " ", 1))
	notJSON("missing value", `{"v":}`)
	notJSON("missing name", `{:1}`)
	notJSON("name without quotes", `{v:1}`)
	notJSON("name in single quotes", `{'v':1}`)
	notJSON("name that is a number", `{1:1}`)
	notJSON("wrong bracket", `{"v":[1}]`)
	notJSON("only the opening brace", `{`)
	notJSON("a name and the end", `{"v"`)
	notJSON("a colon and the end", `{"v":`)
	notJSON("a value and the end", `{"v":1`)
	notJSON("a comma and the end", `{"v":1,`)
	notJSON("a body without end", `{"body_base64":"aGVs`)
	for _, x := range []string{"id", "headers", "x"} {
		where := " in " + x
		bad := func(reason, value string) { notJSON(reason+where, wireText(x, value)) }
		bad("NaN", "NaN")
		bad("Infinity", "Infinity")
		bad("-Infinity", "-Infinity")
		bad("undefined", "undefined")
		bad("capital literal", "True")
		bad("cut literal", "tru")
		bad("long literal", "nulll")
		bad("leading zero", "01")
		bad("leading plus", "+1")
		bad("point without digits behind", "1.")
		bad("point without digits before", ".1")
		bad("hexadecimal", "0x1")
		bad("exponent without digits", "1e")
		bad("exponent with a sign alone", "1e+")
		bad("minus alone", "-")
		bad("1e400", "1e400")
		bad("-1e400", "-1e400")
		bad("just beyond a double", "1.7976931348623159e308")
		bad("310 digits", "1"+strings.Repeat("0", 309))
		bad("0.1e310", "0.1e310")
		bad("a gigantic number", strings.Repeat("9", 1<<20))
		bad("a gigantic exponent", "1e"+strings.Repeat("9", 1<<16))
		bad("number in an array", "[1e400]")
		bad("line feed in a string", "\"\n\"")
		bad("TAB in a string", "\"\t\"")
		bad("NUL in a string", "\"\x00\"")
		bad("unknown escape", `"\x"`)
		bad("upper-case escape", `"\N"`)
		bad("escape cut short", `"\u12"`)
		bad("escape that is not hexadecimal", `"\u12g4"`)
		bad("escape in braces", `"\u{12}"`)
		bad("string without end", `"abc`)
		bad("array that ends as an object", "[1}")
		bad("object that ends as an array", `{"a":1]`)
		bad("array with a name in it", `["a":1]`)
		bad("object without names in it", `{"a"}`)
		bad("lone high surrogate", `"\ud800"`)
		bad("lone low surrogate", `"\udc00"`)
		bad("high surrogate and text", `"\ud800abcdef"`)
		bad("high surrogate and another escape", `"\ud800\n"`)
		bad("two low surrogates", `"\ude00\ude00"`)
		bad("two high surrogates", `"\ud83d\ud83d"`)
		bad("low before high", `"\ude00\ud83d"`)
		bad("lone surrogate in a member name", `{"\udfff":1}`)
		bad("lone surrogate in an array", `["\udbff"]`)
		bad("byte FF", "\"\xff\"")
		bad("a byte of a longer character", "\"\x80\"")
		bad("a character cut short", "\"\xe2\x82\"")
		bad("overlong slash", "\"\xc0\xaf\"")
		bad("surrogate in UTF-8", "\"\xed\xa0\x80\"")
		bad("beyond U+10FFFF", "\"\xf4\x90\x80\x80\"")
		bad("not UTF-8 after an escape", "\"\\n\xff\"")
		bad("not UTF-8 far inside", "\""+strings.Repeat("x", 100)+"é\xff"+strings.Repeat("x", 100)+"\"")
		bad("not UTF-8 between tokens", "\xff1")
		bad("128 levels", nested(127))
		bad("128 levels of objects", strings.Repeat(`{"a":`, 127)+"1"+strings.Repeat("}", 127))
		bad("100,000 levels", nested(100000))
		bad("100,000 levels without end", strings.Repeat("[", 100000))
	}
	for c := range rune(0x20) {
		notJSON("control character in a short text", `{"`+string(c)+`":1}`)
		notJSON("control character in a long text", wireText("x", quoted(strings.Repeat("x", 20)+string(c)+strings.Repeat("x", 20))))
	}
	notJSON("not UTF-8 in a member name", wireText("x\xff", "1"))
	notJSON("control character in a member name", wireText("x\n", "1"))
	notJSON("lone surrogate in a member name", wireText(`\ud800`, "1"))
	notJSON("line feed in base64", wireText("body_base64", "\"aGVs\nbG8=\""))
	notJSON("not UTF-8 in base64", wireText("body_base64", "\"aGVs\xffG8=\""))
	notJSON("lone surrogate in base64", wireText("body_base64", `"aGVs\ud800bG8="`))
	notJSON("quote in base64", wireText("body_base64", `"aGVs"bG8="`))
	for _, first := range []string{"\xff", "\n", `\x`, `\ud800`, `\u00`} {
		notJSON("a body that is not JSON, before a good one", strings.Replace(good, `"id"`, `"body_base64":"`+first+`","id"`, 1))
		notJSON("a body that is not JSON, after a good one", strings.Replace(good, `}`, `,"body_base64":"`+first+`"}`, 1))
	}
	notJSON("128 levels, not an object", nested(128))
	notJSON("first of all, before any field", `{"v":3,"x":1e400}`)

	for _, text := range []string{"null", "true", "1", "-0.5e10", `"{}"`, "[]", "[" + good + "]", nested(127), " [ ] "} {
		add(envelope.CodeNotAnObject, "", "not an object", text)
	}

	version := func(reason, text string) { add(envelope.CodeUnsupportedVersion, "", reason, text) }
	version("no members", "{}")
	version("no members but space", " { } ")
	version("no v", wireText("v", ""))
	version("upper-case V", strings.Replace(good, `"v"`, `"V"`, 1))
	for _, v := range []string{
		"0", "3", "-1", "null", "true", `"1"`, "1.0", "1e0", "-0", "[1]", `{"v":1}`, "18446744073709551617", "99999999999999999999",
	} {
		version("v is "+v, wireText("v", v))
	}
	version("the last v wins", strings.Replace(good, `"id"`, `"v":3,"id"`, 1))
	version("before any field", wireText("v", "3", "id", "1"))
	return append(append(all, fieldRefusals()...), bodyRefusals()...)
}

// digestOf is the digest of a body as it is written.
func digestOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

func TestParseWireRefuses(t *testing.T) {
	for _, tt := range refusals() {
		name := tt.reason
		if len(tt.text) < 200 {
			name += ": " + tt.text
		}
		_, err := envelope.ParseWire([]byte(tt.text))
		var e *envelope.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: error %v, want an *Error with %s", name, err, tt.code)
			continue
		}
		if e.Code != tt.code || e.Field != tt.field {
			t.Errorf("%s: %s %q, want %s %q", name, e.Code, e.Field, tt.code, tt.field)
		}
		if !errors.Is(err, envelope.ErrMalformed) || !envelope.IsPermanent(err) {
			t.Errorf("%s: %v is not a permanent ErrMalformed", name, err)
		}
		if strings.Contains(err.Error(), "hello") || len(err.Error()) > 200 {
			t.Errorf("%s: the text of the error repeats the message: %.300s", name, err)
		}
	}
}

// Of two mistakes the first in the order of the checks is reported, wherever they stand.
func TestParseWireOrder(t *testing.T) {
	body := base64.StdEncoding.EncodeToString([]byte("hell"))
	steps := []struct{ name, bad, want string }{
		{"v", "3", "unsupported_version"},
		{"id", "1", "id"},
		{"source_id", "null", "source_id"},
		{"received_at", "1.5", "received_at"},
		{"size", "-1", "size"},
		{"tenant_id", "1", "tenant_id"},
		{"content_type", "1", "content_type"},
		{"dedupe_key", "[]", "dedupe_key"},
		{"replay_id", "{}", "replay_id"},
		{"idempotency_key", "true", "idempotency_key"},
		{"traceparent", "1", "traceparent"},
		{"tracestate", "1", "tracestate"},
		{"instance", "1", "instance"},
		{"region", "1", "region"},
		{"headers", "1", "headers"},
		{"sha256", "1", "sha256"},
		{"verification", "1", "verification"},
		{"body_base64", quoted(body), "size_mismatch"},
	}
	for i, first := range steps {
		var changes []string
		for _, s := range slices.Backward(steps[i:]) { // the later checks first in the text
			changes = append(changes, s.name, s.bad)
		}
		_, err := envelope.ParseWire([]byte(wireText(changes...)))
		var e *envelope.Error
		if !errors.As(err, &e) {
			t.Fatalf("from %s on: %v", first.name, err)
		}
		if got := string(e.Code); got != first.want && e.Field != first.want {
			t.Errorf("from %s on: %s %q, want %s", first.name, e.Code, e.Field, first.want)
		}
	}
}
