package peers_test

import (
	"strings"

	"github.com/watermill-envelope/envelope/integration/peers"
)

// newNames are the optional strings that SDKs before 0.6 do not look at.
var newNames = []string{"traceparent", "tracestate", "instance", "region"}

// optionalRows are for checks 8 to 11, what may be absent.
func optionalRows() []row {
	var rows []row
	for _, name := range []string{"tenant_id", "content_type", "dedupe_key", "replay_id", "idempotency_key"} {
		rows = append(rows, optionalString(name, nil)...)
	}
	for _, name := range newNames {
		rows = append(rows, optionalString(name, differ{peers.Python050: {accept, noNewFields}})...)
	}
	return append(rows, otherOptionalRows()...)
}

// optionalString are the rows that every optional string has.
func optionalString(name string, ignored differ) []row {
	member := `"` + name + `":`
	return []row{
		{name + " null", inline(member + `null`), accept, nil},
		{name + " a text", inline(member + `"Überall / \u003c"`), accept, nil},
		{name + " a number", inline(member + `1`), "invalid_field " + name, ignored},
		{name + " false", inline(member + `false`), "invalid_field " + name, ignored},
		{name + " an array", inline(member + `["x"]`), "invalid_field " + name, ignored},
		{name + " twice, the last good", inline(member+`1`, "-body_base64", `"body_base64":"aGVsbG8=",`+member+`"x"`), accept, nil},
	}
}

func otherOptionalRows() []row {
	py := func(verdict, reason string) differ {
		return differ{peers.Python050: {verdict, reason}}
	}
	ignored := py(accept, noNewFields)
	sum := func(s string) string { return `"sha256":` + s }
	verified := func(s string) string { return inline(`"verification":` + s) }
	return []row{
		// Empty strings.
		{"empty content_type, idempotency_key", inline(`"content_type":""`, `"idempotency_key":""`), accept, nil},
		{
			"empty traceparent, tracestate, instance, region",
			inline(`"traceparent":""`, `"tracestate":""`, `"instance":""`, `"region":""`), accept, nil,
		},
		{"empty dedupe_key", inline(`"dedupe_key":""`), accept, nil},
		{"empty tenant_id", inline(`"tenant_id":""`), accept, nil},
		{"empty tenant_id and a dedupe_key", inline(`"tenant_id":""`, `"dedupe_key":"e1"`), accept, differ{
			peers.Python050: {accept + ", not key, not key_with_replay", emptyTenant},
			peers.Rust060:   {accept + ", not key, not key_with_replay", emptyTenant},
		}},
		{
			"empty tenant_id, a dedupe_key and a shipped key",
			inline(`"tenant_id":""`, `"dedupe_key":"e1"`, `"idempotency_key":"k"`), accept, nil,
		},
		{"no tenant_id and a dedupe_key", inline(`"dedupe_key":"e1"`), accept, nil},
		{"tenant_id, dedupe_key, replay_id", inline(`"tenant_id":"t"`, `"dedupe_key":"e1"`, `"replay_id":"r1"`), accept, nil},
		{"shipped key and replay_id", inline(`"idempotency_key":"k"`, `"dedupe_key":"e1"`, `"replay_id":"r1"`), accept, nil},
		{"empty replay_id", inline(`"replay_id":""`), accept, differ{
			peers.Rust060: {accept + ", not key_with_replay", emptyReplayID},
		}},
		{"a tenant_id that no claim can have", inline(`"tenant_id":"a.b/c"`), accept, nil},
		{"a traceparent that is none", inline(`"traceparent":"00-0-0-0"`, `"tracestate":"="`), accept, nil},
		{"names in upper case", inline(`"Tenant_ID":1`, `"Headers":1`, `"SHA256":1`), accept, nil},

		// Headers.
		{"headers null", inline(`"headers":null`), accept, nil},
		{"headers empty", inline(`"headers":{}`), accept, nil},
		{"headers as they are", inline(`"headers":{"B":"1","b":"2","":"","authorization":"x","x-ankusa-id":"y","ü":" \u0000"}`), accept, nil},
		{"headers an array", inline(`"headers":[]`), "invalid_field headers", nil},
		{"headers a string", inline(`"headers":"a: b"`), "invalid_field headers", nil},
		{"header a number", inline(`"headers":{"a":1}`), "invalid_field headers", nil},
		{"header null", inline(`"headers":{"a":null}`), "invalid_field headers", nil},
		{"header an array", inline(`"headers":{"a":["b"]}`), "invalid_field headers", nil},
		{"header twice", inline(`"headers":{"a":"1","b":"2","a":"3"}`), accept, nil},
		{"header twice, the last good", inline(`"headers":{"a":1,"\u0061":"x"}`), accept, nil},
		{"header twice, the last bad", inline(`"headers":{"a":"x","a":1}`), "invalid_field headers", nil},
		{"headers twice, the last good", `{"headers":1,` + inline(`"headers":{"a":"b"}`)[1:], accept, nil},

		// The digest.
		{"sha256 of the body", inline(sum(`"` + helloSHA256 + `"`)), accept, nil},
		{"sha256 null", inline(sum(`null`)), accept, differ{peers.Rust060: {"invalid_field sha256", nullSHA256}}},
		{"sha256 empty", inline(sum(`""`)), "invalid_field sha256", nil},
		{"sha256 a number", inline(sum(`1`)), "invalid_field sha256", nil},
		{"sha256 in upper case", inline(sum(`"` + strings.ToUpper(helloSHA256) + `"`)), "invalid_field sha256", nil},
		{"sha256 of 63 digits", inline(sum(`"` + helloSHA256[1:] + `"`)), "invalid_field sha256", nil},
		{"sha256 of 65 digits", inline(sum(`"0` + helloSHA256 + `"`)), "invalid_field sha256", nil},
		{"sha256 and a line feed", inline(sum(`"` + helloSHA256 + `\n"`)), "invalid_field sha256", nil},
		{"sha256 with a g", inline(sum(`"` + helloSHA256[1:] + `g"`)), "invalid_field sha256", nil},
		{"sha256 with a prefix", inline(sum(`"sha256:` + helloSHA256 + `"`)), "invalid_field sha256", nil},

		// Verification.
		{"verification null", verified(`null`), accept, nil},
		{"verification ok", verified(`{"status":"ok","flagged":false}`), accept, nil},
		{"verification flagged", verified(`{"status":"ok","flagged":true}`), accept, nil},
		{"verification of another status", verified(`{"status":"OK ","flagged":false}`), accept, nil},
		{"verification with more members", verified(`{"by":["x"],"flagged":false,"Status":1,"status":"ok"}`), accept, nil},
		{"verification a string", verified(`"ok"`), "invalid_field verification", ignored},
		{"verification an array", verified(`["ok",false]`), "invalid_field verification", ignored},
		{"verification empty", verified(`{}`), "invalid_field verification", ignored},
		{"verification without flagged", verified(`{"status":"ok"}`), "invalid_field verification", ignored},
		{"verification without status", verified(`{"flagged":false}`), "invalid_field verification", ignored},
		{"status empty", verified(`{"status":"","flagged":false}`), "invalid_field verification", ignored},
		{"status null", verified(`{"status":null,"flagged":false}`), "invalid_field verification", ignored},
		{"status true", verified(`{"status":true,"flagged":false}`), "invalid_field verification", ignored},
		{"flagged in a string", verified(`{"status":"ok","flagged":"false"}`), "invalid_field verification", ignored},
		{"flagged null", verified(`{"status":"ok","flagged":null}`), "invalid_field verification", ignored},
		{"flagged 0", verified(`{"status":"ok","flagged":0}`), "invalid_field verification", ignored},
		{"Status in upper case", verified(`{"Status":"ok","flagged":false}`), "invalid_field verification", ignored},
		{"status twice, the last good", verified(`{"status":1,"status":"ok","flagged":false}`), accept, nil},
		{"status twice, the last bad", verified(`{"status":"ok","status":1,"flagged":false}`), "invalid_field verification", ignored},

		// What only this library knows is never a reason to refuse.
		{"ordering_key a number", inline(`"ordering_key":1`), accept, nil},
		{"watermill_metadata an array", inline(`"watermill_metadata":[]`), accept, nil},
		{"watermill_metadata of numbers", inline(`"watermill_metadata":{"a":1}`), accept, nil},
		{"unknown members of every type", inline(`"w":null`, `"x":[1,{}]`, `"y":{"v":3,"id":""}`, `"z":"\u0000"`), accept, nil},

		// The order of the checks.
		{"tenant_id and content_type bad", inline(`"content_type":1`, `"tenant_id":1`), "invalid_field tenant_id", nil},
		{"content_type and dedupe_key bad", inline(`"dedupe_key":1`, `"content_type":1`), "invalid_field content_type", nil},
		{"dedupe_key and replay_id bad", inline(`"replay_id":1`, `"dedupe_key":1`), "invalid_field dedupe_key", nil},
		{"replay_id and idempotency_key bad", inline(`"idempotency_key":1`, `"replay_id":1`), "invalid_field replay_id", nil},
		{"idempotency_key and traceparent bad", inline(`"traceparent":1`, `"idempotency_key":1`), "invalid_field idempotency_key", nil},
		{"traceparent and tracestate bad", inline(`"tracestate":1`, `"traceparent":1`), "invalid_field traceparent", ignored},
		{"tracestate and instance bad", inline(`"instance":1`, `"tracestate":1`), "invalid_field tracestate", ignored},
		{"instance and region bad", inline(`"region":1`, `"instance":1`), "invalid_field instance", ignored},
		{
			"region and headers bad", inline(`"headers":1`, `"region":1`), "invalid_field region",
			py("invalid_field headers", noNewFields),
		},
		{"headers and sha256 bad", inline(sum(`""`), `"headers":1`), "invalid_field headers", nil},
		{"sha256 and verification bad", inline(`"verification":1`, sum(`""`)), "invalid_field sha256", nil},
		{
			"verification bad and no body", inline("-body_base64", `"verification":1`), "invalid_field verification",
			py("missing_body", noNewFields),
		},
	}
}
