package peers_test

import (
	"strings"

	"github.com/watermill-envelope/envelope/integration/peers"
)

const otherSHA256 = "486ea46224d1bb4fb680f34f7c9ad96a8f24ec88be73ea8e5a6c65260e9cb8a7" // of "world"

// bodyRows are for checks 12 to 14, 17 and 18: the body.
func bodyRows() []row {
	py := func(verdict, reason string) differ {
		return differ{peers.Python050: {verdict, reason}}
	}
	rust := func(verdict, reason string) differ {
		return differ{peers.Rust060: {verdict, reason}}
	}
	body := func(s string) string { return inline(`"body_base64":` + s) }
	ref := strings.TrimPrefix(claimBase[len(claimBase)-1], `"claim":`)
	return []row{
		// Which of the two.
		{"neither", inline("-body_base64"), "missing_body", nil},
		{"both null", inline(`"body_base64":null`, `"claim":null`), "missing_body", nil},
		{"both", inline(`"claim":` + ref), "ambiguous_body", nil},
		{
			"both and sha256 null", inline(`"claim":`+ref, `"sha256":null`), "ambiguous_body",
			rust("invalid_field sha256", nullSHA256),
		},
		{"body and an empty claim", inline(`"claim":""`), "ambiguous_body", nil},
		{"body and a claim that is false", inline(`"claim":false`), "ambiguous_body", nil},
		{"claim and an empty body", claim(`"body_base64":""`), "ambiguous_body", nil},
		{"claim and a body that is a number", claim(`"body_base64":1`), "ambiguous_body", nil},
		{"body and a null claim", inline(`"claim":null`), accept, nil},
		{"claim and a null body", claim(`"body_base64":null`), accept, nil},
		{"body in another case", inline("-body_base64", `"Body_Base64":"aGVsbG8="`), "missing_body", nil},
		{"body in another name", inline("-body_base64", `"body":"aGVsbG8="`), "missing_body", nil},
		{"body twice, the last null", inline("-body_base64", `"body_base64":"aGVsbG8=","body_base64":null`), "missing_body", nil},
		{"body twice, the last good", inline("-body_base64", `"body_base64":1,"body_base64":"aGVsbG8="`), accept, nil},
		{"claim twice, the last null", inline(`"claim":1,"claim":null`), accept, nil},

		// Base64.
		{"empty body", inline(`"size":0`, `"body_base64":""`), accept, nil},
		{"body a number", body(`1`), "invalid_body_base64", nil},
		{"body an object", body(`{}`), "invalid_body_base64", nil},
		{"body false", body(`false`), "invalid_body_base64", nil},
		{"body of every letter", inline(`"size":48`,
			`"body_base64":"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"`), accept, nil},
		{"body with escapes", inline(`"size":6`, `"body_base64":"\u002B\/\/+AAA\u0041"`), accept, nil},
		{"body without padding", body(`"aGVsbG8"`), "invalid_body_base64", nil},
		{"body with too much padding", body(`"aGVsbG8=="`), "invalid_body_base64", nil},
		{"body with padding it does not need", inline(`"size":6`, `"body_base64":"aGVsbG8h===="`), "invalid_body_base64", py(accept, padding)},
		{
			"body with one padding it does not need", inline(`"size":6`, `"body_base64":"aGVsbG8h="`), "invalid_body_base64",
			py(accept, padding),
		},
		{"body with padding inside", body(`"aG==bG8="`), "invalid_body_base64", nil},
		{"body of padding", inline(`"size":0`, `"body_base64":"===="`), "invalid_body_base64", nil},
		{"body of one letter", inline(`"size":0`, `"body_base64":"a"`), "invalid_body_base64", nil},
		{"body of one letter and padding", inline(`"size":0`, `"body_base64":"a==="`), "invalid_body_base64", nil},
		{"body in the URL alphabet", inline(`"size":3`, `"body_base64":"_-__"`), "invalid_body_base64", nil},
		{"body with a blank", body(`"aGVs bG8="`), "invalid_body_base64", nil},
		{"body with a line feed", body(`"aGVs\nbG8="`), "invalid_body_base64", nil},
		{"body with CR LF after it", body(`"aGVsbG8=\r\n"`), "invalid_body_base64", nil},
		{"body with a zero byte", body(`"aGVsbG8=\u0000"`), "invalid_body_base64", nil},
		{"body with a letter that is not ASCII", body(`"aGVsbG8é"`), "invalid_body_base64", nil},
		{"body with two stray bits", body(`"aGVsbG9="`), "invalid_body_base64", py(accept, strayBits)},
		{"body with four stray bits", inline(`"size":4`, `"body_base64":"aGVsbP=="`), "invalid_body_base64", py(accept, strayBits)},
		{"body as a data URL", body(`"data:;base64,aGVsbG8="`), "invalid_body_base64", nil},

		// The size and the digest.
		{"size too small", inline(`"size":4`), "size_mismatch", nil},
		{"size too large", inline(`"size":6`), "size_mismatch", nil},
		{"size 0", inline(`"size":0`), "size_mismatch", nil},
		{"size of an empty body", inline(`"size":1`, `"body_base64":""`), "size_mismatch", nil},
		{"another digest", inline(`"sha256":"` + otherSHA256 + `"`), "integrity", nil},
		{"digest of nothing", inline(`"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`), "integrity", nil},
		{"empty body and its digest", inline(`"size":0`, `"body_base64":""`,
			`"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`), accept, nil},
		{"digest twice, the last good", inline(`"sha256":1,"sha256":"` + helloSHA256 + `"`), accept, nil},

		// The order of the checks.
		{"base64 and size bad", inline(`"size":9`, `"body_base64":"*"`), "invalid_body_base64", nil},
		{"size and digest bad", inline(`"size":9`, `"sha256":"`+otherSHA256+`"`), "size_mismatch", nil},
		{"ambiguous and base64 bad", inline(`"claim":"x"`, `"body_base64":"*"`), "ambiguous_body", nil},
		{"claim with a body and a tenant of another", claim(`"body_base64":""`, `"tenant_id":"globex"`), "ambiguous_body", nil},
	}
}
