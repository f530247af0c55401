package main

import (
	"errors"
	"strings"
	"testing"
)

func TestPrintJSON(t *testing.T) {
	long := strings.Repeat("x", 60)
	var out strings.Builder
	p := newPrinter(&out)
	p.json(`{"a":"` + long + `","b":{"c,d":"\",","e":[1,2]},"f":"` + long + `"}`)
	want := strings.Join([]string{
		`             {"a":"` + long + `","b":{"c,d":"\",",`,
		`              "e":[1,2]},"f":"` + long + `"}`,
		``,
	}, "\n")
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	// Nothing but the line breaks is ours.
	if got := strings.Join(members(`{"a":"x,\\","b":1,"c":{}}`), ""); got != `{"a":"x,\\","b":1,"c":{}}` {
		t.Errorf("members changed the text: %s", got)
	}
}

func TestShortened(t *testing.T) {
	long := strings.Repeat("A", 48)
	for _, tt := range []struct{ text, want string }{
		{`{"id":"1","body_base64":"aGk="}`, `{"id":"1","body_base64":"aGk="}`},
		{`{"id":"1","body_base64":""}`, `{"id":"1","body_base64":""}`},
		{`{"body_base64":"` + long + `AAAA"}`, `{"body_base64":"` + long[:24] + `[28 more]"}`},
	} {
		w, err := readWire([]byte(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		if got := w.shortened([]byte(tt.text)); got != tt.want {
			t.Errorf("%s\ngot  %s\nwant %s", tt.text, got, tt.want)
		}
	}
}

func TestPreview(t *testing.T) {
	for body, want := range map[string]string{
		"":                         "(empty)",
		"{\"a\":\n1}":              `{"a": 1}`,
		"Łódź":                     "Łódź",
		strings.Repeat("x", 41):    strings.Repeat("x", 40) + "...",
		"\x80\x81":                 "80 81",
		strings.Repeat("\xff", 11): strings.Repeat("ff ", 9) + "ff...",
		"esc\x1b[31m":              "esc [31m",
		strings.Repeat("é", 100):   strings.Repeat("é", 20) + "...",
	} {
		if got := preview([]byte(body)); got != want {
			t.Errorf("preview(%q) = %q, want %q", body, got, want)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestPrinterKeepsItsError(t *testing.T) {
	p := newPrinter(brokenPipe{})
	p.printf("x")
	if p.err == nil {
		t.Error("a failed write went unseen")
	}
}
