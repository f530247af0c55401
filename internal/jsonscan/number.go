package jsonscan

// number walks over the number that starts at s[i]. One beyond the range of a double is
// malformed; one that a double cannot hold exactly, or rounds to zero, is not.
func number(s string, i int) int {
	start := i
	if i < len(s) && s[i] == '-' {
		i++
	}
	digits := i
	if i < len(s) && s[i] == '0' {
		i++
	} else if i = SkipDigits(s, i); i == digits {
		return ^i
	}
	whole := i - digits
	if i < len(s) && s[i] == '.' {
		i++
		fraction := i
		if i = SkipDigits(s, i); i == fraction {
			return ^i
		}
	}
	mantissa := s[digits:i]
	exponent := ""
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		from := i
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		first := i
		if i = SkipDigits(s, i); i == first {
			return ^i
		}
		exponent = s[from:i]
	}
	// Below 10^300 without an exponent, which is every number that people write.
	if exponent == "" && whole <= 300 {
		return i
	}
	if overflows(mantissa, whole, exponent) {
		return ^start
	}
	return i
}

// SkipDigits returns the index of the first byte from s[i] on that is no digit.
func SkipDigits(s string, i int) int {
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	return i
}

// doubleLimit are the digits of 2^1024 - 2^970: a number from there on rounds to infinity.
const doubleLimit = "17976931348623158079372897140530341507993413271003782693617377898044496829276475094664901797758720709633028641669288791094655554785194040263065748867150582" +
	"0681908902000708383676273854845817711531764475730270069855571366959622842914819860834936475292719074168444365510704342711559699508093042880177904174497792"

// overflows reports whether mantissa (digits, perhaps with a point in it after whole of
// them) times ten to the exponent is at or over doubleLimit. It is exact for any number of
// digits.
func overflows(mantissa string, whole int, exponent string) bool {
	// The number is 0.d1d2d3... times ten to the power of point, d1 being the first digit
	// that is not zero.
	point := int64(whole)
	i := 0
	for i < len(mantissa) && (mantissa[i] == '0' || mantissa[i] == '.') {
		if mantissa[i] == '0' {
			point--
		}
		i++
	}
	if i == len(mantissa) {
		return false // zero
	}
	point += parseExponent(exponent)
	if point != int64(len(doubleLimit)) {
		return point > int64(len(doubleLimit))
	}
	for k := 0; k < len(doubleLimit); i++ {
		if i == len(mantissa) {
			return false // what is left of the limit is compared with zeros; its last digit is not 0
		}
		if mantissa[i] == '.' {
			continue
		}
		if mantissa[i] != doubleLimit[k] {
			return mantissa[i] > doubleLimit[k]
		}
		k++
	}
	return true
}

// parseExponent returns the exponent, or one of that sign far beyond any text's length.
func parseExponent(s string) int64 {
	const far = 1 << 60
	negative := false
	if s != "" && (s[0] == '+' || s[0] == '-') {
		negative = s[0] == '-'
		s = s[1:]
	}
	var e int64
	for i := range len(s) {
		if e = e*10 + int64(s[i]-'0'); e > far/100 {
			e = far
			break
		}
	}
	if negative {
		return -e
	}
	return e
}
