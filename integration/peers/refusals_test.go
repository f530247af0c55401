package peers_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/integration/peers"
)

// A row is one message and the verdict on it.
type row struct {
	name  string
	value string
	// want is what docs/wire.md says of it: accept, or the code (and the field).
	want string
	// differ has the SDKs that do not agree.
	differ map[peers.SDK]disagreement
}

// A disagreement is an SDK's own verdict in place of the row's: accept, a code (and the
// field), the class of an error that is not the SDK's own, or accept and the fields that
// the SDK reads otherwise.
type disagreement struct{ verdict, reason string }

// dependsOnPython are the reasons that go away with a newer Python under the same SDK:
// such a disagreement may be missing.
var dependsOnPython = []string{padding}

const accept = "accept"

// differ is for the literals of the table.
type differ = map[peers.SDK]disagreement

// The reasons for disagreements. docs/interoperability.md has each of them.
const (
	onlyV1        = "reads version 1 only"
	onlyV1Refs    = "reads version 1 references only"
	noNewFields   = "does not look at `verification`, `traceparent`, `tracestate`, `instance` and `region`"
	nullSHA256    = "does not take a null `sha256` for an absent one"
	unsigned64    = "reads `size` as an unsigned 64-bit integer"
	anyInteger    = "reads integers of any length"
	minusZero     = "reads `-0` as the integer 0"
	nonNumbers    = "reads `NaN`, `Infinity` and `-Infinity`"
	overflow      = "reads a number beyond the range of a double"
	anyEncoding   = "reads UTF-16 and UTF-32, and skips a byte order mark"
	surrogates    = "reads half of a surrogate pair, as an escape or in bytes"
	deepNesting   = "does not limit nesting"
	recursion     = "fails on nesting beyond what its stack holds with an error that is not its own"
	padding       = "reads base64 with padding that it does not need, before Python 3.13"
	strayBits     = "reads base64 with stray bits after the last byte"
	emptyTenant   = "computes the key to deduplicate by with an empty tenant where `tenant_id` is empty"
	emptyReplayID = "appends `#replay:` to the key where `replay_id` is empty"
)

// table is all rows: the files refusals_*_test.go have one part each.
func table() []row {
	return slices.Concat(textRows(), fieldRows(), optionalRows(), bodyRows(), claimRows())
}

// The base messages that rows change.
var (
	inlineBase = []string{`"v":1`, `"id":"h1"`, `"source_id":"s"`, `"received_at":1`, `"size":5`, `"body_base64":"aGVsbG8="`}
	claimBase  = []string{
		`"v":1`, `"id":"h1"`, `"source_id":"s"`, `"tenant_id":"acme"`, `"received_at":1`, `"size":3145728`,
		`"sha256":"` + helloSHA256 + `"`, `"claim":"urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y002"`,
	}
)

const helloSHA256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

// inline is a message with the body "hello", changed: `"size":6` replaces the member of
// that name or is added at the end, and "-size" leaves it out.
func inline(changes ...string) string { return object(inlineBase, changes) }

// claim is a message in the claim form, changed as inline does.
func claim(changes ...string) string { return object(claimBase, changes) }

func object(members, changes []string) string {
	members = slices.Clone(members)
	for _, change := range changes {
		removed, remove := strings.CutPrefix(change, "-")
		name, _, _ := strings.Cut(change, ":")
		if remove {
			name = `"` + removed + `"`
		}
		i := slices.IndexFunc(members, func(m string) bool { return strings.HasPrefix(m, name+":") })
		switch {
		case remove && i < 0:
			panic("no member " + name)
		case remove:
			members = slices.Delete(members, i, i+1)
		case i >= 0:
			members[i] = change
		default:
			members = append(members, change)
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func TestVerdicts(t *testing.T) {
	sdks := []*peers.Peer{peers.Python(t), peers.Rust(t)}
	seen := map[string]bool{}
	for _, r := range table() {
		if seen[r.name] {
			t.Fatalf("two rows are called %q", r.name)
		}
		seen[r.name] = true
		t.Run(r.name, func(t *testing.T) {
			e, err := envelope.ParseWire([]byte(r.value))
			if got := ours(t, err); got != r.want {
				t.Errorf("ParseWire: %s, want %s", got, r.want)
				return // what an SDK reads has nothing to be compared with
			}
			for _, p := range sdks {
				want := r.want
				listed, ok := r.differ[p.SDK]
				if ok {
					want = listed.verdict
					if want == r.want {
						t.Errorf("%s: listed as a disagreement with its own verdict", p.SDK)
					}
				}
				got := theirs(t, p, []byte(r.value), e)
				switch {
				case got == want:
				case ok && got == r.want && slices.Contains(dependsOnPython, listed.reason):
				case ok && got == r.want:
					t.Errorf("%s: agrees, but is listed with %s", p.SDK, want)
				default:
					t.Errorf("%s: %s, want %s", p.SDK, got, want)
				}
			}
		})
	}
}

// ours returns the verdict that err is.
func ours(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return accept
	}
	var typed *envelope.Error
	if !errors.As(err, &typed) || !envelope.IsPermanent(err) {
		t.Fatalf("ParseWire: %v is no permanent *envelope.Error", err)
	}
	if typed.Field == "" {
		return string(typed.Code)
	}
	return string(typed.Code) + " " + typed.Field
}

// optional are the fields where an Envelope does not tell an empty string from null.
var optional = []string{
	"tenant_id", "content_type", "dedupe_key", "replay_id", "idempotency_key",
	"traceparent", "tracestate", "instance", "region",
}

// theirs returns an SDK's verdict. Where the message was read as e, it names the fields
// that the SDK reads otherwise.
func theirs(t *testing.T, p *peers.Peer, value []byte, e *envelope.Envelope) string {
	t.Helper()
	got, refusal := p.Decode(t, value)
	if refusal != nil {
		return refusal.String()
	}
	if e == nil {
		return accept
	}
	delete(got, "v")
	for _, name := range optional {
		if got[name] == "" {
			got[name] = nil
		}
	}
	verdict := accept
	for _, line := range p.Diff(got, peers.Want(e)) {
		name, _, _ := strings.Cut(line, ":")
		verdict += ", not " + name
	}
	return verdict
}
