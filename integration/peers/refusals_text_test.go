package peers_test

import (
	"strconv"
	"strings"

	"github.com/watermill-envelope/envelope/integration/peers"
)

// nest is value inside n arrays.
func nest(n int, value string) string {
	return strings.Repeat("[", n) + value + strings.Repeat("]", n)
}

// manyMembers is a message with n unknown members.
func manyMembers(n int) string {
	members := make([]string, n)
	for i := range members {
		members[i] = `"k` + strconv.Itoa(i) + `":` + strconv.Itoa(i)
	}
	return "{" + strings.Join(inlineBase, ",") + "," + strings.Join(members, ",") + "}"
}

// utf16 is ASCII text in UTF-16, little endian.
func utf16(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		b.Write([]byte{c, 0})
	}
	return b.String()
}

// textRows are for checks 1 to 3: the text, the object, the version.
func textRows() []row {
	py := func(verdict, reason string) differ {
		return differ{peers.Python050: {verdict, reason}}
	}
	return []row{
		// Not JSON.
		{"empty", "", "invalid_json", nil},
		{"blanks", " \t\r\n", "invalid_json", nil},
		{"text", "hello", "invalid_json", nil},
		{"open object", `{"v":1`, "invalid_json", nil},
		{"open string", `{"v`, "invalid_json", nil},
		{"trailing comma", `{"v":1,}`, "invalid_json", nil},
		{"missing comma", `{"v":1 "id":"h1"}`, "invalid_json", nil},
		{"missing colon", `{"v" 1}`, "invalid_json", nil},
		{"single quotes", `{'v':1}`, "invalid_json", nil},
		{"name without quotes", `{v:1}`, "invalid_json", nil},
		{"comment", `/* */` + inline(), "invalid_json", nil},
		{"misspelt literal", inline(`"x":True`), "invalid_json", nil},
		{"cut literal", inline(`"x":nul`), "invalid_json", nil},
		{"object after it", inline() + `{}`, "invalid_json", nil},
		{"brace after it", inline() + `}`, "invalid_json", nil},
		{"zero byte after it", inline() + "\x00", "invalid_json", nil},
		{"text after an array", `[] x`, "invalid_json", nil},
		{"vertical tab before it", "\v" + inline(), "invalid_json", nil},
		{"no-break space before it", "\u00a0" + inline(), "invalid_json", nil},
		{"white space around and inside", " \t\r\n" + strings.ReplaceAll(inline(), `"id":`, "\r\n\t \"id\" : ") + " \t\r\n", accept, nil},

		// Strings.
		{"line feed in a string", inline("\"id\":\"h\n1\""), "invalid_json", nil},
		{"zero byte in a string", inline("\"x\":\"\x00\""), "invalid_json", nil},
		{"escaped zero byte", inline(`"id":"h\u0000"`), accept, nil},
		{"delete in a string", inline("\"id\":\"h\x7f\""), accept, nil},
		{"unknown escape", inline(`"x":"\x41"`), "invalid_json", nil},
		{"short escape", inline(`"x":"\u12"`), "invalid_json", nil},
		{"escape with a wrong digit", inline(`"x":"\u12g4"`), "invalid_json", nil},
		{"every escape", inline(`"id":"\"\\\/\b\f\n\r\t\u00e9\u00E9"`), accept, nil},
		{"surrogate pair", inline(`"id":"\ud83d\uDE00"`), accept, nil},
		{"high surrogate alone", inline(`"id":"\ud800"`), "invalid_json", py(accept, surrogates)},
		{"low surrogate alone", inline(`"id":"\udc00"`), "invalid_json", py(accept, surrogates)},
		{"high surrogate before a letter", inline(`"id":"\ud800\u0041"`), "invalid_json", py(accept, surrogates)},
		{"two high surrogates", inline(`"id":"\ud83d\ud83d"`), "invalid_json", py(accept, surrogates)},
		{"surrogate in an unknown member", inline(`"x":{"y":["\ud800"]}`), "invalid_json", py(accept, surrogates)},
		{"surrogate in an unknown name", inline(`"\ud800":1`), "invalid_json", py(accept, surrogates)},
		{"noncharacters", inline("\"id\":\"\uffff\ufffe\U0010ffff\""), accept, nil},

		// Bytes.
		{"byte FF in a string", inline("\"id\":\"\xff\""), "invalid_json", nil},
		{"byte FF in an unknown name", inline("\"\xff\":1"), "invalid_json", nil},
		{"cut rune in an unknown member", inline("\"x\":[\"\xc3\"]"), "invalid_json", nil},
		{"overlong slash", inline("\"id\":\"\xc0\xaf\""), "invalid_json", nil},
		{"beyond U+10FFFF", inline("\"id\":\"\xf4\x90\x80\x80\""), "invalid_json", nil},
		{"surrogate in bytes", inline("\"id\":\"\xed\xa0\x80\""), "invalid_json", py(accept, surrogates)},
		{"byte order mark", "\ufeff" + inline(), "invalid_json", py(accept, anyEncoding)},
		{"byte order mark after it", inline() + "\ufeff", "invalid_json", nil},
		{"UTF-16", utf16(inline()), "invalid_json", py(accept, anyEncoding)},
		{"UTF-16 with a byte order mark", "\xff\xfe" + utf16(inline()), "invalid_json", py(accept, anyEncoding)},

		// Numbers.
		{"NaN", inline(`"x":NaN`), "invalid_json", py(accept, nonNumbers)},
		{"Infinity", inline(`"x":[Infinity]`), "invalid_json", py(accept, nonNumbers)},
		{"-Infinity", inline(`"x":-Infinity`), "invalid_json", py(accept, nonNumbers)},
		{"NaN in a field", inline(`"received_at":NaN`), "invalid_json", py("invalid_field received_at", nonNumbers)},
		{"NaN for a message", `NaN`, "invalid_json", py("not_an_object", nonNumbers)},
		{"leading zero", inline(`"x":01`), "invalid_json", nil},
		{"plus sign", inline(`"x":+1`), "invalid_json", nil},
		{"no digit before the point", inline(`"x":.5`), "invalid_json", nil},
		{"no digit after the point", inline(`"x":1.`), "invalid_json", nil},
		{"no digit in the exponent", inline(`"x":1e`), "invalid_json", nil},
		{"lone minus", inline(`"x":-`), "invalid_json", nil},
		{"hexadecimal", inline(`"x":0x10`), "invalid_json", nil},
		{"largest double", inline(`"x":1.7976931348623157e308`), accept, nil},
		{"1e400", inline(`"x":1e400`), "invalid_json", py(accept, overflow)},
		{"-1e400 in a field", inline(`"size":-1e400`), "invalid_json", py("invalid_field size", overflow)},
		{"1e400 for a version", inline(`"v":1e400`), "invalid_json", py("unsupported_version", overflow)},
		{"1e-400", inline(`"x":1e-400`), accept, nil},
		{"an exponent of 30 digits", inline(`"x":1e` + strings.Repeat("9", 30)), "invalid_json", py(accept, overflow)},
		{"0 with an exponent of 30 digits", inline(`"x":0e` + strings.Repeat("9", 30)), accept, nil},
		{"an integer of 300 digits", inline(`"x":` + strings.Repeat("9", 300)), accept, nil},
		{"an integer of 400 digits", inline(`"x":` + strings.Repeat("9", 400)), "invalid_json", py(accept, anyInteger)},
		{"an integer of 10,000 digits", inline(`"x":` + strings.Repeat("9", 10_000)), "invalid_json", nil},
		{"a fraction of 10,000 digits", inline(`"x":0.` + strings.Repeat("9", 10_000)), accept, nil},

		// Nesting. The message is the first level.
		{"127 levels", inline(`"x":` + nest(126, "")), accept, nil},
		{"128 levels", inline(`"x":` + nest(127, "")), "invalid_json", py(accept, deepNesting)},
		{"127 levels in a known member", inline(`"headers":{"a":` + nest(125, "") + `}`), "invalid_field headers", nil},
		{
			"128 levels in a known member", inline(`"headers":{"a":` + nest(126, "") + `}`), "invalid_json",
			py("invalid_field headers", deepNesting),
		},
		{"127 levels of objects", inline(`"x":` + strings.Repeat(`{"y":`, 125) + "{}" + strings.Repeat("}", 125)), accept, nil},
		{
			"128 levels of objects", inline(`"x":` + strings.Repeat(`{"y":`, 126) + "{}" + strings.Repeat("}", 126)), "invalid_json",
			py(accept, deepNesting),
		},
		{"127 arrays for a message", nest(127, ""), "not_an_object", nil},
		{"128 arrays for a message", nest(128, ""), "invalid_json", py("not_an_object", deepNesting)},
		{"100,000 arrays", inline(`"x":` + nest(100_000, "")), "invalid_json", py("RecursionError", recursion)},
		{"100,000 brackets that never close", strings.Repeat("[", 100_000), "invalid_json", py("RecursionError", recursion)},

		// Members.
		{"100,000 unknown members", manyMembers(100_000), accept, nil},
		{"unknown member twice", inline(`"x":1,"x":[2]`), accept, nil},
		{"unknown empty name", inline(`"":1`), accept, nil},
		{"escaped names", inline(`-id`, `-v`, `"\u0069d":"h1"`, `"\u0076":1`), accept, nil},

		// Not an object.
		{"null", `null`, "not_an_object", nil},
		{"true", ` true `, "not_an_object", nil},
		{"a number", `1`, "not_an_object", nil},
		{"a string", `"v"`, "not_an_object", nil},
		{"an array of a message", `[` + inline() + `]`, "not_an_object", nil},

		// The version.
		{"empty object", `{}`, "unsupported_version", nil},
		{"version missing", inline("-v"), "unsupported_version", nil},
		{"version null", inline(`"v":null`), "unsupported_version", nil},
		{"version 0", inline(`"v":0`), "unsupported_version", nil},
		{"version 2", inline(`"v":2`), accept, py("unsupported_version", onlyV1)},
		{"version 3", inline(`"v":3`), "unsupported_version", nil},
		{"version -1", inline(`"v":-1`), "unsupported_version", nil},
		{"version -0", inline(`"v":-0`), "unsupported_version", nil},
		{"version 1.0", inline(`"v":1.0`), "unsupported_version", nil},
		{"version 1e0", inline(`"v":1e0`), "unsupported_version", nil},
		{"version true", inline(`"v":true`), "unsupported_version", nil},
		{"version in a string", inline(`"v":"1"`), "unsupported_version", nil},
		{"version in an array", inline(`"v":[1]`), "unsupported_version", nil},
		{"version 2^64+1", inline(`"v":18446744073709551617`), "unsupported_version", nil},
		{"version in upper case", inline(`-v`, `"V":1`), "unsupported_version", nil},
		{"version twice, the last good", `{"v":3,` + inline()[1:], accept, nil},
		{"version twice, the last bad", `{"v":1,` + inline(`"v":3`)[1:], "unsupported_version", nil},
		{"version before the fields", `{"v":9,"id":1}`, "unsupported_version", nil},
	}
}
