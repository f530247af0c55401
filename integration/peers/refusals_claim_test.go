package peers_test

import (
	"strings"

	"github.com/watermill-envelope/envelope/integration/peers"
)

// claimRows are for checks 15, 16 and 19: the claim form.
func claimRows() []row {
	py := func(verdict, reason string) differ {
		return differ{peers.Python050: {verdict, reason}}
	}
	const id = "01M39VMD8RA3C5HR4RBV67Y002"
	const signature = "MAmydaNzNwA3sV38ggZG15ElUTajA8QtBkKevsaq1Ac"
	ref := func(s string) string { return claim(`"claim":"` + s + `"`) }
	v1 := func(tenant, id string) string {
		return claim(`"tenant_id":null`, `"claim":"urn:ankusa:claim:v1:`+tenant+`:`+id+`"`)
	}
	v2 := func(rest string) string {
		return claim(`"claim":"urn:ankusa:claim:v2:acme:` + id + rest + `"`)
	}
	return []row{
		{"claim", claim(), accept, nil},
		{"claim of nothing", claim(`"size":0`), accept, nil},
		{"claim with a key and headers", claim(`"dedupe_key":"e1"`, `"headers":{"a":"b"}`), accept, nil},
		{"claim a number", claim(`"claim":1`), "invalid_field claim", nil},
		{"claim true", claim(`"claim":true`), "invalid_field claim", nil},
		{"claim empty", claim(`"claim":""`), "invalid_field claim", nil},
		{"claim a URL", ref("https://example.org/v1/claims/acme/" + id), "invalid_field claim", nil},
		{"claim with URN in upper case", ref("URN:ankusa:claim:v1:acme:" + id), "invalid_field claim", nil},
		{"claim without the id", ref("urn:ankusa:claim:v1:acme"), "invalid_field claim", nil},
		{"claim with a segment more", ref("urn:ankusa:claim:v1:acme:" + id + ":0"), "invalid_field claim", nil},
		{"claim with a line feed after it", ref("urn:ankusa:claim:v1:acme:" + id + `\n`), "invalid_field claim", nil},
		{"claim with a blank before it", ref(" urn:ankusa:claim:v1:acme:" + id), "invalid_field claim", nil},
		{"claim of version 3", ref("urn:ankusa:claim:v3:acme:" + id), "invalid_field claim", nil},
		{"claim with escapes", ref(`urn\u003aankusa:claim:v1:acme:` + id), accept, nil},

		{"claim tenant of every kind of letter", v1("aZ09_-", id), accept, nil},
		{"claim tenant of 64 letters", v1(strings.Repeat("a", 64), id), accept, nil},
		{"claim tenant of 65 letters", v1(strings.Repeat("a", 65), id), "invalid_field claim", nil},
		{"claim tenant empty", v1("", id), "invalid_field claim", nil},
		{"claim tenant with a dot", v1("a.b", id), "invalid_field claim", nil},
		{"claim tenant with a slash", v1("../a", id), "invalid_field claim", nil},
		{"claim tenant percent-encoded", v1("a%2Db", id), "invalid_field claim", nil},
		{"claim tenant not ASCII", v1("ä", id), "invalid_field claim", nil},

		{"claim id in lower case", v1("acme", strings.ToLower(id)), "invalid_field claim", nil},
		{"claim id with an I", v1("acme", id[:25]+"I"), "invalid_field claim", nil},
		{"claim id with an L", v1("acme", id[:25]+"L"), "invalid_field claim", nil},
		{"claim id with an O", v1("acme", id[:25]+"O"), "invalid_field claim", nil},
		{"claim id with a U", v1("acme", id[:25]+"U"), "invalid_field claim", nil},
		{"claim id from 8", v1("acme", "8"+id[1:]), "invalid_field claim", nil},
		{"claim id of the last time", v1("acme", "7"+strings.Repeat("Z", 25)), accept, nil},
		{"claim id of 25 letters", v1("acme", id[:25]), "invalid_field claim", nil},
		{"claim id of 27 letters", v1("acme", id+"0"), "invalid_field claim", nil},

		{"signed claim", v2(":1790345000:" + signature), accept, py("invalid_field claim", onlyV1Refs)},
		{
			"signed claim of version 2", claim(`"v":2`, `"claim":"urn:ankusa:claim:v2:acme:`+id+`:1:`+signature+`"`), accept,
			py("unsupported_version", onlyV1),
		},
		{"signed claim of 12 digits", v2(":999999999999:" + signature), accept, py("invalid_field claim", onlyV1Refs)},
		{"signed claim of 13 digits", v2(":1000000000000:" + signature), "invalid_field claim", nil},
		{"signed claim from 0", v2(":01790345000:" + signature), "invalid_field claim", nil},
		{"signed claim that never expires", v2(":0:" + signature), "invalid_field claim", nil},
		{"signed claim without a time", v2("::" + signature), "invalid_field claim", nil},
		{"signed claim with a negative time", v2(":-1:" + signature), "invalid_field claim", nil},
		{"signed claim without a signature", v2(":1790345000"), "invalid_field claim", nil},
		{"signed claim without either", v2(""), "invalid_field claim", nil},
		{"signed claim with 42 letters", v2(":1:" + signature[1:]), "invalid_field claim", nil},
		{"signed claim with 44 letters", v2(":1:" + signature + "A"), "invalid_field claim", nil},
		{"signed claim with a plus", v2(":1:" + signature[1:] + "+"), "invalid_field claim", nil},
		{"signed claim with padding", v2(":1:" + signature + "="), "invalid_field claim", nil},
		{"signed claim with a segment more", v2(":1:" + signature + ":x"), "invalid_field claim", nil},
		{"version 1 claim with a signature", ref("urn:ankusa:claim:v1:acme:" + id + ":1:" + signature), "invalid_field claim", nil},

		{"claim without sha256", claim("-sha256"), "invalid_field sha256", nil},
		{"claim with sha256 null", claim(`"sha256":null`), "invalid_field sha256", nil},
		{"claim with sha256 empty", claim(`"sha256":""`), "invalid_field sha256", nil},

		{"tenant of another", claim(`"tenant_id":"globex"`), "tenant_mismatch", nil},
		{"tenant in another case", claim(`"tenant_id":"Acme"`), "tenant_mismatch", nil},
		{"tenant empty beside a claim", claim(`"tenant_id":""`), "tenant_mismatch", nil},
		{"tenant null beside a claim", claim(`"tenant_id":null`), accept, nil},
		{"tenant absent beside a claim", claim("-tenant_id"), accept, nil},
		{"tenant of another beside a signed claim", claim(`"tenant_id":"globex"`,
			`"claim":"urn:ankusa:claim:v2:acme:`+id+`:1:`+signature+`"`), "tenant_mismatch", py("invalid_field claim", onlyV1Refs)},

		// The order of the checks.
		{"claim bad and no sha256", claim("-sha256", `"claim":"x"`), "invalid_field claim", nil},
		{
			"claim bad and sha256 null", claim(`"sha256":null`, `"claim":"x"`), "invalid_field claim",
			differ{peers.Rust060: {"invalid_field sha256", nullSHA256}},
		},
		{"claim and sha256 bad", claim(`"sha256":"x"`, `"claim":"x"`), "invalid_field sha256", nil},
		{"no sha256 and a tenant of another", claim("-sha256", `"tenant_id":"globex"`), "invalid_field sha256", nil},
	}
}
