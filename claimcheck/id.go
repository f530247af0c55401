package claimcheck

import "encoding/binary"

// An id is a ULID: 48 bits of Unix milliseconds, 64 random bits, and 16 bits for the position
// in a pack, the most significant first.
type id [16]byte

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// validClaimID reports whether s is an id as it is written.
func validClaimID(s string) bool {
	if len(s) != claimIDLen || s[0] > '7' {
		return false
	}
	for i := range len(s) {
		if digitValue(s[i]) < 0 {
			return false
		}
	}
	return true
}

// digitValue returns the value of a digit of upper-case Crockford base32, which has no I, L,
// O and U, or -1.
func digitValue(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'A' <= c && c <= 'H':
		return int(c-'A') + 10
	case c == 'J' || c == 'K':
		return int(c-'J') + 18
	case c == 'M' || c == 'N':
		return int(c-'M') + 20
	case 'P' <= c && c <= 'T':
		return int(c-'P') + 22
	case 'V' <= c && c <= 'Z':
		return int(c-'V') + 27
	}
	return -1
}

// parseID returns the id that is written as s, which must be valid.
func parseID(s string) id {
	var hi, lo uint64
	for i := range len(s) {
		hi = hi<<5 | lo>>59
		lo = lo<<5 | uint64(digitValue(s[i]))
	}
	var u id
	binary.BigEndian.PutUint64(u[:8], hi)
	binary.BigEndian.PutUint64(u[8:], lo)
	return u
}

func (u id) String() string {
	hi, lo := binary.BigEndian.Uint64(u[:8]), binary.BigEndian.Uint64(u[8:])
	var s [claimIDLen]byte
	for i := len(s) - 1; i >= 0; i-- {
		s[i] = crockford[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(s[:])
}

func (u id) millis() int64 { return int64(binary.BigEndian.Uint64(u[:8]) >> 16) }

func (u id) index() int { return int(binary.BigEndian.Uint16(u[14:])) }

// at returns the id of the claim at a position of u's pack.
func (u id) at(index int) id {
	binary.BigEndian.PutUint16(u[14:], uint16(index))
	return u
}
