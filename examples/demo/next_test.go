package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Where nothing stands beside the JSON, what the handler added is looked for in it.
func TestChecksOfABareTransport(t *testing.T) {
	const member = `"watermill_metadata":{"handled_by":"demo"},`
	for _, tt := range []struct{ what, member, want string }{
		{"as it should be", member, ""},
		{"the handler's own entry lost", "", "metadata"},
		{"another handler", strings.Replace(member, "demo", "other", 1), "metadata JSON"},
		{"an entry that nobody set", strings.Replace(member, "}", `,"x":"y"}`, 1), "metadata JSON"},
		{"another text", member + " ", "JSON"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			trip := goodTrip(t, "github-push")
			to, err := findTransport("redis-channels")
			if err != nil {
				t.Fatal(err)
			}
			const last = `"body_base64":`
			text := strings.Replace(string(trip.delivery.body), last, tt.member+last, 1)
			trip.to, trip.delivery = to, delivery{body: []byte(text)}
			if trip.onNext, err = readWire(trip.delivery.body); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(wrong(trip), " "); got != tt.want {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}

// Who reads make help or the README finds every transport.
func TestTransportsAreNamed(t *testing.T) {
	for file, before := range map[string]string{
		"../../Makefile":  "TRANSPORT=$(TRANSPORT) (demo), or ",
		"../../README.md": "What the handler publishes to, ",
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, list, _ := strings.Cut(string(text), before)
		list, _, _ = strings.Cut(list, "\n\n")
		names := strings.FieldsFunc(list, func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') })
		for _, to := range transports[1:] {
			if !slices.Contains(names, to.name) {
				t.Errorf("%s does not name %s", file, to.name)
			}
		}
	}
}
