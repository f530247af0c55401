package amqpwire

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

// text returns a header value as text, if it has an obvious form. It does not say whether a
// string is UTF-8: a malformed message passes on what it came with.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), utf8.Valid(v)
	case amqp.Table, []any:
		return jsonText(v)
	default:
		return scalarText(v)
	}
}

func scalarText(v any) (string, bool) {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v), true
	case int8:
		return strconv.FormatInt(int64(v), 10), true
	case uint8:
		return strconv.FormatUint(uint64(v), 10), true
	case int16:
		return strconv.FormatInt(int64(v), 10), true
	case uint16:
		return strconv.FormatUint(uint64(v), 10), true
	case int32:
		return strconv.FormatInt(int64(v), 10), true
	case uint32:
		return strconv.FormatUint(uint64(v), 10), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case int:
		return strconv.Itoa(v), true
	case float32:
		return floatText(float64(v), 32)
	case float64:
		return floatText(v, 64)
	case amqp.Decimal:
		return decimalText(v), true
	case time.Time:
		return v.UTC().Format(time.RFC3339), true
	default:
		return "", false
	}
}

func floatText(f float64, bits int) (string, bool) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return "", false
	}
	return strconv.FormatFloat(f, 'g', -1, bits), true
}

// decimalText writes a decimal in digits, its sign and its point.
func decimalText(d amqp.Decimal) string {
	digits := strconv.FormatInt(int64(d.Value), 10)
	if d.Scale == 0 {
		return digits
	}
	digits, negative := strings.CutPrefix(digits, "-")
	if missing := int(d.Scale) + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - int(d.Scale)
	digits = digits[:point] + "." + digits[point:]
	if negative {
		return "-" + digits
	}
	return digits
}

// maxDepth is how deep tables and arrays may lie in each other to have a text form; x-death
// needs three.
const maxDepth = 16

// jsonText returns a table or an array as compact JSON, its names sorted.
func jsonText(v any) (string, bool) {
	tree, ok := jsonTree(v, maxDepth)
	if !ok {
		return "", false
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree); err != nil {
		return "", false
	}
	return strings.TrimSuffix(b.String(), "\n"), true
}

// jsonTree returns v as what package json can write: numbers as they are, everything else
// that is not a table or an array as text.
func jsonTree(v any, depth int) (any, bool) {
	if depth == 0 {
		return nil, false
	}
	switch v := v.(type) {
	case nil:
		return nil, true
	case string:
		return v, utf8.ValidString(v)
	case []byte:
		return string(v), utf8.Valid(v)
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			var ok bool
			if list[i], ok = jsonTree(e, depth-1); !ok {
				return nil, false
			}
		}
		return list, true
	case amqp.Table:
		object := make(map[string]any, len(v))
		for name, e := range v {
			value, ok := jsonTree(e, depth-1)
			if !ok || !utf8.ValidString(name) {
				return nil, false
			}
			object[name] = value
		}
		return object, true
	case amqp.Decimal, time.Time:
		return scalarText(v)
	default:
		_, ok := scalarText(v)
		return v, ok
	}
}
