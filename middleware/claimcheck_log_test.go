package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// Every message that fails is one line, with its id and reference, and without its body, its
// headers, or a signature.
func TestClaimCheckLogs(t *testing.T) {
	log, out := lines()
	s, b := &store{}, &broker{}
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, Logger: log})
	pub := wrap(t, cc, b, nil)
	secrets := []string{envelope.MetadataHeaders, `{"x-token":"secret"}`, "note", "secret"}
	large := func() *message.Message { return hook(slices.Concat([]byte("secret"), text(70_000)), secrets...) }
	const id = "message_id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 source_id=stripe tenant_id=acme"
	steps := []struct {
		rule string
		do   func() error
		want []string // "": any text
	}{
		{"all goes well", func() error { return pub.Publish("hooks", large(), hook(text(1))) }, nil},
		{"a message that cannot be sent", func() error {
			return pub.Publish("hooks", hook(text(1)), hook(text(1), envelope.MetadataHeaders, `{"x-token":"secret"`))
		}, []string{
			`level=WARN msg="message not published" ` + id + ` topic=hooks code=invalid_field field=ankusa_headers error=`,
		}},
		{"a check-in that fails", func() error {
			s.put = func(_ context.Context, key string, _ *io.SectionReader) error { return errDown }
			defer func() { s.put = nil }()
			return pub.Publish("hooks", large(), hook(text(1)), large())
		}, []string{
			`level=WARN msg="message not published" ` + id + ` topic=hooks code=unavailable error="claim check: message \"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10\" at index 0: `,
			`level=WARN msg="message not published" ` + id + ` topic=hooks code=unavailable error="claim check: message \"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10\" at index 2: `,
		}},
		{"a broker that refuses what was checked in", func() error {
			b.err = errors.New("not the leader")
			defer func() { b.err = nil }()
			return pub.Publish("hooks", hook(text(1)), large())
		}, []string{
			`level=WARN msg="message not published" ` + id + ` topic=hooks claim=urn:ankusa:claim:v1:acme:`,
		}},
		{"a broker that refuses what was not", func() error {
			b.err = errors.New("not the leader")
			defer func() { b.err = nil }()
			return pub.Publish("hooks", hook(text(1)))
		}, []string{}},
		{"a claim that is not there", func() error {
			_, err := handle(t, cc, hook(nil, append(secrets, envelope.MetadataClaim, claimRef, envelope.MetadataSize, "5",
				envelope.MetadataSHA256, strings.Repeat("0", 64))...))
			return err
		}, []string{
			`level=WARN msg="body not redeemed" ` + id + ` code=not_found claim=` + claimRef +
				` error="claim check: message \"0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10\": claimcheck: redeem: not_found`,
		}},
		{"a signed one", func() error {
			_, err := handle(t, cc, hook(nil, append(secrets, envelope.MetadataClaim, signedRef, envelope.MetadataSize, "5",
				envelope.MetadataSHA256, strings.Repeat("0", 64))...))
			return err
		}, []string{
			`level=WARN msg="body not redeemed" ` + id + ` code=signed_ref claim=urn:ankusa:claim:v2:acme:01M39VMD8RA3C5HR4RBV67Y002:1737500000:<signature>` +
				` error=`,
		}},
	}
	for _, step := range steps {
		out.Reset()
		if err := step.do(); (err == nil) != (step.want == nil) {
			t.Errorf("%s: error %v", step.rule, err)
		}
		got := slices.Collect(strings.Lines(out.String()))
		if len(got) != len(step.want) {
			t.Errorf("%s: %d lines, want %d:\n%s", step.rule, len(got), len(step.want), out)
			continue
		}
		for i, want := range step.want {
			if !strings.HasPrefix(got[i], want) {
				t.Errorf("%s: logged\n%s\nwant\n%s...", step.rule, got[i], want)
			}
		}
		if text := out.String(); strings.Contains(text, "secret") || strings.Contains(text, "s3cr3t") || strings.Contains(text, "bytes of body") {
			t.Errorf("%s: logged too much:\n%s", step.rule, text)
		}
	}
}

// counts are what an observer is told.
type counts []string

func (c *counts) CheckedIn(topic string, bytes int64, took time.Duration, code string) {
	*c = append(*c, fmt.Sprintf("in %s %d %v %q", topic, bytes, took >= 0, code))
}

func (c *counts) Redeemed(topic string, bytes int64, took time.Duration, code string) {
	*c = append(*c, fmt.Sprintf("out %s %d %v %q", topic, bytes, took >= 0, code))
}

func TestClaimCheckObserver(t *testing.T) {
	c := &counts{}
	s, b := &store{}, &broker{}
	cc := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, Observer: c})
	lazy := claimCheck(t, hookmw.ClaimCheckConfig{Store: s, Observer: c, Lazy: true})
	pub := wrap(t, cc, b, nil)
	read := func(n int64) {
		r, err := cc.OpenBody(b.receive(t, 1))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.CopyN(io.Discard, r, n)
		if err != nil && err != io.EOF {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		_ = r.Close()
	}
	steps := []struct {
		rule string
		do   func()
		want []string
	}{
		{
			"published", func() { _ = pub.Publish("hooks", hook(text(10)), hook(text(70_000)), hook(text(80_000))) },
			[]string{`in hooks 70000 true ""`, `in hooks 80000 true ""`},
		},
		{"reused", func() { _ = pub.Publish("hooks", b.receive(t, 1)) }, nil},
		{"inline", func() { _, _ = handle(t, cc, b.receive(t, 0)) }, nil},
		{"redeemed", func() { _, _ = handle(t, cc, b.receive(t, 1)) }, []string{`out  70000 true ""`}},
		{"read", func() { read(70_001) }, []string{`out  70000 true ""`}},
		{"read in part", func() { read(10) }, []string{`out  70000 true "closed"`}},
		{"refused without the store", func() {
			msg := b.receive(t, 1)
			msg.Metadata[envelope.MetadataTenantID] = "globex"
			_, _ = handle(t, cc, msg)
			_, _ = cc.OpenBody(msg)
			_, _ = handle(t, lazy, msg)
		}, []string{`out  70000 true "tenant_mismatch"`, `out  70000 true "tenant_mismatch"`, `out  70000 true "tenant_mismatch"`}},
		{"left to its reader", func() { _, _ = handle(t, lazy, b.receive(t, 1)) }, nil},
		{"an outage", func() {
			s.put = func(context.Context, string, *io.SectionReader) error { return errDown }
			s.get = func(context.Context, string, int64, int64) (io.ReadCloser, error) {
				return nil, &claimcheck.Error{Code: claimcheck.CodeForbidden}
			}
			_ = pub.Publish("hooks", hook(text(70_000)))
			_, _ = handle(t, cc, b.receive(t, 1))
		}, []string{`in hooks 70000 true "unavailable"`, `out  70000 true "forbidden"`}},
	}
	for _, step := range steps {
		*c = nil
		if step.do(); !slices.Equal(*c, step.want) {
			t.Errorf("%s: observed %q, want %q", step.rule, *c, step.want)
		}
	}
}

func TestClaimCheckConfig(t *testing.T) {
	s := &store{}
	tests := []struct {
		rule   string
		config hookmw.ClaimCheckConfig
		named  []string // in the error; none: there is no error
	}{
		{"a store alone", hookmw.ClaimCheckConfig{Store: s}, nil},
		{"a gateway alone", hookmw.ClaimCheckConfig{Gateway: gateway{}}, nil},
		{"a negative InlineMaxBytes", hookmw.ClaimCheckConfig{Store: s, InlineMaxBytes: -1}, nil},
		{"the zero value", hookmw.ClaimCheckConfig{}, []string{"neither Store nor Gateway"}},
		{
			"everything wrong",
			hookmw.ClaimCheckConfig{TenantFallback: "a b", Timeout: -1, MaxBodyBytes: -2, PackMaxBytes: -3},
			[]string{"neither Store nor Gateway", `TenantFallback "a b"`, "Timeout -1ns", "MaxBodyBytes is -2", "PackMaxBytes is -3"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			err := tt.config.Validate()
			if (err == nil) != (tt.named == nil) {
				t.Errorf("error %v", err)
			}
			for _, what := range tt.named {
				if !strings.Contains(fmt.Sprint(err), what) {
					t.Errorf("%v does not name %s", err, what)
				}
			}
			cc, newErr := hookmw.NewClaimCheck(tt.config)
			if fmt.Sprint(newErr) != fmt.Sprint(err) || (cc == nil) != (err != nil) {
				t.Errorf("NewClaimCheck: %v", newErr)
			}
		})
	}
}
