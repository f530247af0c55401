package peers_test

import "github.com/watermill-envelope/envelope/integration/peers"

// fieldRows are for checks 4 to 7, the required fields.
func fieldRows() []row {
	py := func(verdict, reason string) differ {
		return differ{peers.Python050: {verdict, reason}}
	}
	return []row{
		{"id missing", inline("-id"), "invalid_field id", nil},
		{"id null", inline(`"id":null`), "invalid_field id", nil},
		{"id empty", inline(`"id":""`), "invalid_field id", nil},
		{"id a number", inline(`"id":1`), "invalid_field id", nil},
		{"id an object", inline(`"id":{}`), "invalid_field id", nil},
		{"id a blank", inline(`"id":" "`), accept, nil},
		{"id in upper case", inline("-id", `"ID":"h1"`), "invalid_field id", nil},
		{"id twice, the last good", `{"id":1,` + inline()[1:], accept, nil},
		{"id twice, the last bad", `{"id":"h1",` + inline(`"id":""`)[1:], "invalid_field id", nil},
		{"id twice, the last escaped", `{"id":1,` + inline("-id", `"\u0069\u0064":"h1"`)[1:], accept, nil},

		{"source_id missing", inline("-source_id"), "invalid_field source_id", nil},
		{"source_id null", inline(`"source_id":null`), "invalid_field source_id", nil},
		{"source_id a number", inline(`"source_id":1`), "invalid_field source_id", nil},
		{"source_id empty", inline(`"source_id":""`), accept, nil},
		{"source_id with blanks and letters of others", inline(`"source_id":"a b/ü"`), accept, nil},

		{"received_at missing", inline("-received_at"), "invalid_field received_at", nil},
		{"received_at null", inline(`"received_at":null`), "invalid_field received_at", nil},
		{"received_at in a string", inline(`"received_at":"1"`), "invalid_field received_at", nil},
		{"received_at true", inline(`"received_at":true`), "invalid_field received_at", nil},
		{"received_at 1.0", inline(`"received_at":1.0`), "invalid_field received_at", nil},
		{"received_at 1e3", inline(`"received_at":1e3`), "invalid_field received_at", nil},
		{"received_at 1E3", inline(`"received_at":1E3`), "invalid_field received_at", nil},
		{"received_at 0", inline(`"received_at":0`), accept, nil},
		{"received_at -0", inline(`"received_at":-0`), "invalid_field received_at", py(accept, minusZero)},
		{"received_at -0.0", inline(`"received_at":-0.0`), "invalid_field received_at", nil},
		{"received_at -1", inline(`"received_at":-1`), accept, nil},
		{"received_at 2^63-1", inline(`"received_at":9223372036854775807`), accept, nil},
		{"received_at 2^63", inline(`"received_at":9223372036854775808`), "invalid_field received_at", py(accept, anyInteger)},
		{"received_at -2^63", inline(`"received_at":-9223372036854775808`), accept, nil},
		{"received_at -2^63-1", inline(`"received_at":-9223372036854775809`), "invalid_field received_at", py(accept, anyInteger)},
		{"received_at 2^64", inline(`"received_at":18446744073709551616`), "invalid_field received_at", py(accept, anyInteger)},

		{"size missing", inline("-size"), "invalid_field size", nil},
		{"size null", inline(`"size":null`), "invalid_field size", nil},
		{"size in a string", inline(`"size":"5"`), "invalid_field size", nil},
		{"size true", inline(`"size":true`), "invalid_field size", nil},
		{"size 5.0", inline(`"size":5.0`), "invalid_field size", nil},
		{"size 5e0", inline(`"size":5e0`), "invalid_field size", nil},
		{"size -1", inline(`"size":-1`), "invalid_field size", nil},
		{"size -0", inline(`"size":-0`, `"body_base64":""`), "invalid_field size", py(accept, minusZero)},
		{"size 2^63-1", inline(`"size":9223372036854775807`), "size_mismatch", nil},
		{"size 2^63", inline(`"size":9223372036854775808`), "invalid_field size", differ{
			peers.Python050: {"size_mismatch", anyInteger},
			peers.Rust060:   {"size_mismatch", unsigned64},
		}},
		{"size 2^64", inline(`"size":18446744073709551616`), "invalid_field size", py("size_mismatch", anyInteger)},
		{"size 2^63-1 of a claim", claim(`"size":9223372036854775807`), accept, nil},
		{"size 2^63 of a claim", claim(`"size":9223372036854775808`), "invalid_field size", differ{
			peers.Python050: {accept, anyInteger},
			peers.Rust060:   {accept, unsigned64},
		}},
		{"size 2^64 of a claim", claim(`"size":18446744073709551616`), "invalid_field size", py(accept, anyInteger)},

		// The order of the checks.
		{"all required fields bad", inline(`"id":1`, `"source_id":1`, `"received_at":"1"`, `"size":"5"`), "invalid_field id", nil},
		{"all but id bad", inline(`"source_id":1`, `"received_at":"1"`, `"size":"5"`), "invalid_field source_id", nil},
		{"received_at and size bad", inline(`"size":-1`, `"received_at":"1"`), "invalid_field received_at", nil},
		{"size and tenant_id bad", inline(`"tenant_id":1`, `"size":-1`), "invalid_field size", nil},
		{"id bad and no body", inline("-body_base64", `"id":""`), "invalid_field id", nil},
	}
}
