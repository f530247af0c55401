package claimcheck_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/memstore"
)

func Example() {
	ctx := context.Background()
	checker, err := claimcheck.New(claimcheck.Config{Store: &memstore.Store{}})
	if err != nil {
		panic(err)
	}

	// The sender stores the body. The message carries the three values of the answer.
	body := []byte(strings.Repeat("a large body ", 300_000))
	claim := checker.CheckIn(ctx, []claimcheck.Body{{Tenant: "acme", ID: "evt_1", Data: body}})[0]
	if claim.Err != nil {
		panic(claim.Err)
	}
	ref, sha256, size := claim.Ref.String(), claim.SHA256, claim.Size

	// The receiver fetches it.
	got, err := checker.Redeem(ctx, ref, sha256, size)
	fmt.Println(len(got), err)
	// Output: 3900000 <nil>
}

// An answer for each body: the failure of one is not that of the others.
func ExampleChecker_CheckIn() {
	checker, err := claimcheck.New(claimcheck.Config{Store: &memstore.Store{}})
	if err != nil {
		panic(err)
	}
	for _, claim := range checker.CheckIn(context.Background(), []claimcheck.Body{
		{Tenant: "acme", Data: []byte("hello")},
		{Tenant: "no/tenant", Data: []byte("hello")},
		{Tenant: "acme", Data: []byte("world!")},
	}) {
		if claim.Err != nil {
			fmt.Println(claim.Err)
			continue
		}
		fmt.Println("claim", claim.Ref.Index(), "of", claim.Ref.Tenant(), "with", claim.Size, "bytes")
	}
	// Output:
	// claim 0 of acme with 5 bytes
	// claimcheck: check in: invalid_tenant tenant "no/tenant": not 1 to 64 characters of A-Z a-z 0-9 _ and -
	// claim 1 of acme with 6 bytes
}

// A body that should not be in memory is read as it comes. It is not verified before its end,
// so what was made of it counts only then.
func ExampleChecker_Open() {
	ctx := context.Background()
	checker, err := claimcheck.New(claimcheck.Config{Store: &memstore.Store{}})
	if err != nil {
		panic(err)
	}
	claim := checker.CheckIn(ctx, []claimcheck.Body{{Tenant: "acme", Data: []byte("line 1\nline 2\n")}})[0]

	save := func(to io.Writer) error {
		body, err := checker.Open(ctx, claim.Ref.String(), claim.SHA256, claim.Size)
		if err != nil {
			return err
		}
		defer body.Close()
		_, err = io.Copy(to, body)
		return err
	}
	if err := save(os.Stdout); err != nil {
		fmt.Println("forget what was saved:", err)
	}
	// Output:
	// line 1
	// line 2
}

// The class of an error says whether the message is to wait or to be put aside.
func ExampleError() {
	checker, err := claimcheck.New(claimcheck.Config{Store: &memstore.Store{}})
	if err != nil {
		panic(err)
	}
	_, err = checker.Redeem(context.Background(), "urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y002", strings.Repeat("0", 64), 5)
	fmt.Println(errors.Is(err, claimcheck.ErrNotFound), envelope.IsPermanent(err))
	// Output: true true
}

func ExampleParseRef() {
	ref, err := claimcheck.ParseRef("urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y002")
	if err != nil {
		panic(err)
	}
	fmt.Println("claim", ref.Index(), "in", ref.Key())
	fmt.Println("at a gateway", ref.Path())
	// Output:
	// claim 2 in claims/tenant=acme/dt=2026-09-24/01M39VMD8RA3C5HR4RBV67Y000
	// at a gateway /v1/claims/acme/01M39VMD8RA3C5HR4RBV67Y002
}

// A signed reference is a credential. A log shows the rest of it.
func ExampleRef_LogValue() {
	ref, err := claimcheck.ParseRef("urn:ankusa:claim:v2:acme:01M39VMD8RA3C5HR4RBV67Y002:1737500000:" +
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNO-_")
	if err != nil {
		panic(err)
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	log.Info("redeeming", "claim", ref)
	// Output:
	// level=INFO msg=redeeming claim=urn:ankusa:claim:v2:acme:01M39VMD8RA3C5HR4RBV67Y002:1737500000:<signature>
}
