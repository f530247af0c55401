package envelope_test

import (
	"strings"

	"github.com/watermill-envelope/envelope"
)

// fieldRefusals are the refusals of the members before the body.
func fieldRefusals() []refusal {
	var all []refusal
	field := func(name, reason, text string) {
		all = append(all, refusal{reason, text, envelope.CodeInvalidField, name})
	}
	good := wireText()

	field("id", "no id", wireText("id", ""))
	field("id", "empty id", wireText("id", `""`))
	field("id", "only ID", strings.Replace(good, `"id"`, `"ID"`, 1))
	field("id", "a last id that is empty", strings.Replace(good, `"source_id"`, `"id":"","source_id"`, 1))
	field("id", "an escaped name is the same name", strings.Replace(good, `"source_id"`, `"\u0069d":null,"source_id"`, 1))
	for _, value := range []string{"null", "1", "true", "[]", "{}"} {
		field("id", "not a string", wireText("id", value))
		field("source_id", "not a string", wireText("source_id", value))
	}
	field("source_id", "no source_id", wireText("source_id", ""))
	field("source_id", "only Source_ID", strings.Replace(good, `"source_id"`, `"Source_ID"`, 1))

	for _, name := range []string{"received_at", "size"} {
		field(name, "missing", wireText(name, ""))
		for _, value := range []string{
			"null", "true", `"1"`, "[]", "{}", "1.0", "1.5", "1e3", "1E0", "0e0", "-0", "-0.0",
			"9223372036854775808", "-9223372036854775809", "18446744073709551616", strings.Repeat("9", 300),
		} {
			field(name, "not a plain integer of 64 bits", wireText(name, value))
		}
	}
	field("size", "negative", wireText("size", "-1"))
	field("size", "most negative", wireText("size", "-9223372036854775808"))

	for _, name := range []string{
		"tenant_id", "content_type", "dedupe_key", "replay_id", "idempotency_key", "traceparent", "tracestate", "instance", "region",
	} {
		for _, value := range []string{"0", "false", "[]", "{}", `[""]`} {
			field(name, "neither a string nor null", wireText(name, value))
		}
		field(name, "the last one wins", wireText(name, `"x",`+quoted(name)+`:1`))
	}

	for _, value := range []string{
		"1", "true", `""`, "[]", `[["a","b"]]`, `{"a":1}`, `{"a":null}`, `{"a":["b"]}`, `{"a":{}}`, `{"a":"b","c":true}`, `{"a":"b","a":1}`,
		`{"a":1,"a":"b","\u0061":null}`, `{"a":1,"b":2,"a":"b"}`, `{"a":1,"A":"b"}`,
	} {
		field("headers", "not an object of strings", wireText("headers", value))
	}

	for _, value := range []string{
		"1", "true", "[]", "{}", `""`, `"abc"`,
		quoted(strings.ToUpper(helloDigest)), quoted(helloDigest[1:]), quoted(helloDigest + "0"), quoted(helloDigest[1:] + "g"),
		quoted(helloDigest[1:] + `\n`), quoted(helloDigest[1:] + "é"), quoted(" " + helloDigest[1:]), quoted("sha256:" + helloDigest),
		quoted(`\u0041` + helloDigest[1:]),
	} {
		field("sha256", "not 64 lower-case hex digits", wireText("sha256", value))
	}

	for _, value := range []string{
		"1", "true", `"ok"`, "[]", "{}", `{"status":"ok"}`, `{"flagged":false}`, `{"status":"","flagged":false}`,
		`{"status":null,"flagged":false}`, `{"status":1,"flagged":false}`, `{"status":"ok","flagged":null}`,
		`{"status":"ok","flagged":0}`, `{"status":"ok","flagged":"false"}`, `{"status":"ok","flagged":{}}`,
		`{"Status":"ok","flagged":false}`, `{"status":"ok","Flagged":false}`,
		`{"status":"ok","flagged":false,"status":""}`, `{"status":"ok","flagged":false,"flagged":null}`,
		`{"status":"ok","flagged":false,"\u0073tatus":1}`, `[{"status":"ok","flagged":false}]`,
	} {
		field("verification", "not a status and a flag", wireText("verification", value))
	}
	return all
}

// bodyRefusals are the refusals of body and claim, the last checks.
func bodyRefusals() []refusal {
	var all []refusal
	add := func(code envelope.Code, field, reason, text string) {
		all = append(all, refusal{reason, text, code, field})
	}

	body := func(value string) string { return wireText("body_base64", value) }
	for _, value := range []string{`""`, `"aGVsbG8="`, "1", "false", "[]", "{}"} {
		for _, claim := range []string{`""`, quoted(ref), "1", "false", "[]", "{}"} {
			add(envelope.CodeAmbiguousBody, "", "both, whatever they are", wireText("body_base64", value, "claim", claim))
		}
	}
	add(envelope.CodeMissingBody, "", "neither", body(""))
	add(envelope.CodeMissingBody, "", "null and absent", body("null"))
	add(envelope.CodeMissingBody, "", "absent and null", wireText("body_base64", "", "claim", "null"))
	add(envelope.CodeMissingBody, "", "both null", wireText("body_base64", "null", "claim", "null"))
	add(envelope.CodeMissingBody, "", "the last one wins", body(`"aGVsbG8=","body_base64":null`))
	add(envelope.CodeMissingBody, "", "wrong case", strings.Replace(wireText(), "body_base64", "Body_Base64", 1))

	for _, value := range []string{
		"1", "true", "[]", "{}", // not strings
		`"aGVsbG8"`, `"aGVsbG8=="`, `"aGVsbA="`, `"aGVsbA"`, // not the right padding
		`"="`, `"=="`, `"==="`, `"===="`, `"a==="`, `"aG=="=`, `"aGVs===="`, `"aGVsbG8=aGVsbG8="`, `"aG==bG8="`, `"a"`, `"aG"`, `"aGV"`,
		`"aGVsbG9="`, `"aGVsbH=="`, `"aGVsbG8\u003d="`, // bits behind the last byte, too much padding
		`"aGVsbG8=\n"`, `"aGVs\r\nbG8="`, `"\naGVsbG8="`, `"\n\n\n\naGVsbG8="`, `"aGVsbG8\n="`, // line breaks
		`" aGVsbG8="`, `"aGVsbG8= "`, `"aGVs bG8="`, `"\taGVsbG8="`,
		`"aGVsbG8_"`, `"aGVsbG8-"`, `"aGVsbG8*"`, `"aGVsbG8,"`, `"aGVsbG8\u0000"`, `"aGVsb\\8="`, `"aGVsb\"8="`, // other alphabets
		`"aGVsbé8="`, `"aGVsb\u00e98="`, `"\u0161GVsbG8="`, `"aGVsbG8=\ud83d\ude00"`,
	} {
		if strings.HasSuffix(value, `"=`) {
			add(envelope.CodeInvalidJSON, "", "text behind the string", body(value))
			continue
		}
		add(envelope.CodeInvalidBodyBase64, "", "not canonical base64", body(value))
	}
	long := strings.Repeat("QUJD", 5000)
	for _, at := range []int{0, 1, 31, 32, 4095, 4096, 4097, 10000, len(long) - 1} {
		for _, bad := range []string{"!", "=", `\n`, `\u00e9`, `\"`} {
			add(envelope.CodeInvalidBodyBase64, "", "one wrong character in a long body", body(quoted(long[:at]+bad+long[at+1:])))
		}
		add(envelope.CodeInvalidBodyBase64, "", "escaped text with one character too few", body(quoted(`\u0051`+long[2:])))
	}

	claim := func(value string, changes ...string) string {
		return claimText(append([]string{"claim", value}, changes...)...)
	}
	id := "01M39VMD8RA3C5HR4RBV67Y002"
	for _, value := range []string{
		"1", "true", "[]", "{}", `""`, quoted(ref[:len(ref)-1]), quoted(ref + "0"), quoted(ref + `\n`), quoted(" " + ref), quoted(ref + ":"),
		quoted(strings.ToUpper(ref)), quoted(strings.Replace(ref, "urn", "URN", 1)), quoted(strings.Replace(ref, "v1", "v3", 1)),
		quoted("urn:ankusa:claim:v1::" + id), quoted("urn:ankusa:claim:v1:" + strings.Repeat("a", 65) + ":" + id),
		quoted("urn:ankusa:claim:v1:a.b:" + id), quoted("urn:ankusa:claim:v1:a/b:" + id), quoted("urn:ankusa:claim:v1:é:" + id),
		quoted("urn:ankusa:claim:v1:a%20b:" + id), quoted("urn:ankusa:claim:v1:..:" + id),
		quoted("urn:ankusa:claim:v1:acme:" + strings.ToLower(id)), quoted("urn:ankusa:claim:v1:acme:8" + id[1:]),
		quoted("urn:ankusa:claim:v1:acme:" + id[:25] + "I"), quoted("urn:ankusa:claim:v1:acme:" + id[:25] + "L"),
		quoted("urn:ankusa:claim:v1:acme:" + id[:25] + "O"), quoted("urn:ankusa:claim:v1:acme:" + id[:25] + "U"),
		quoted("urn:ankusa:claim:v1:acme"), quoted("urn:ankusa:claim:v1:"), quoted(strings.Replace(ref, "v1", "v2", 1)),
		quoted(strings.Replace(signedRef, "v2", "v1", 1)), quoted(signedRef + "R"), quoted(signedRef[:len(signedRef)-1]),
		quoted(signedRef[:len(signedRef)-1] + "="), quoted(strings.Replace(signedRef, ":1737500000:", ":0737500000:", 1)),
		quoted(strings.Replace(signedRef, ":1737500000:", "::", 1)), quoted(strings.Replace(signedRef, ":1737500000:", ":1234567890123:", 1)),
		quoted(strings.Replace(signedRef, ":1737500000:", ":-1:", 1)), quoted(signedRef + ":x"), quoted(strings.Repeat(ref, 1000)),
		quoted(strings.Repeat(`\u0061`, 10000)),
	} {
		add(envelope.CodeInvalidField, "claim", "not a reference", claim(value))
		add(envelope.CodeInvalidField, "claim", "before the missing digest", claim(value, "sha256", ""))
		add(envelope.CodeInvalidField, "claim", "before the tenant", claim(value, "tenant_id", `"other"`))
	}
	add(envelope.CodeInvalidField, "sha256", "a claim without a digest", claimText("sha256", ""))
	add(envelope.CodeInvalidField, "sha256", "null is none", claimText("sha256", "null"))
	add(envelope.CodeInvalidField, "sha256", "before the tenant", claimText("sha256", "null", "tenant_id", `"other"`))

	add(envelope.CodeSizeMismatch, "", "size too small", wireText("size", "4"))
	add(envelope.CodeSizeMismatch, "", "size too large", wireText("size", "6"))
	add(envelope.CodeSizeMismatch, "", "size of the text", wireText("size", "8"))
	add(envelope.CodeSizeMismatch, "", "the largest size", wireText("size", "9223372036854775807"))
	add(envelope.CodeSizeMismatch, "", "an empty body", body(`""`))
	add(envelope.CodeSizeMismatch, "", "before the digest", wireText("size", "4", "sha256", quoted(digestOf("other"))))
	add(envelope.CodeIntegrity, "", "another digest", wireText("sha256", quoted(digestOf("hello "))))
	add(envelope.CodeIntegrity, "", "another digest of nothing", wireText("size", "0", "body_base64", `""`, "sha256", quoted(helloDigest)))

	for _, tenant := range []string{`""`, `"Acme"`, `"acm"`, `"acme2"`, `"acme\n"`, quoted(strings.Repeat("a", 100000))} {
		add(envelope.CodeTenantMismatch, "", "another tenant's claim", claimText("tenant_id", tenant))
		add(envelope.CodeTenantMismatch, "", "another tenant's signed claim", claim(quoted(signedRef), "tenant_id", tenant))
	}
	return all
}
