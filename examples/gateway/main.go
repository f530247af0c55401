// Gateway serves the claims in a directory over HTTP, and puts bodies there to try it with.
//
//	go run ./examples/gateway -store ./claims -checkin push.json -tenant acme
//	go run ./examples/gateway -store ./claims
//
// It listens on 127.0.0.1:4001, where whoever reaches it may read every body. With -tokens it
// asks for a bearer token: each line of the file has a token and the tenants that it opens,
// "*" for all of them.
//
//	xUwBl8O0ZP2J-dMkSfx0MQ acme,initech
//
// An interrupt, or SIGTERM, ends it when the requests that it has begun are answered; another
// one ends it at once.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	"github.com/watermill-envelope/envelope/claimcheck/gateway"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // another signal is the end
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the program until ctx ends, and returns its exit status.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := run(ctx, args, stdout, stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(stderr, "gateway:", err)
	return 1
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("store", "", "`directory` that the objects are in")
	listen := flags.String("listen", "127.0.0.1:4001", "`address` to serve on")
	tokens := flags.String("tokens", "", "`file` of bearer tokens and their tenants; nobody is asked for one when empty")
	file := flags.String("checkin", "", "put this `file` into the store, print its reference, and end")
	tenant := flags.String("tenant", "default", "whose the body of -checkin is")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || flags.NArg() > 0 {
		flags.Usage()
		return errors.New("-store is required, and other arguments than flags are not")
	}
	store, err := filestore.New(*dir)
	if err != nil {
		return err
	}
	if *file != "" {
		return checkIn(ctx, store, *tenant, *file, stdout)
	}
	c := gateway.Config{Store: store, Logger: slog.New(slog.NewTextHandler(stderr, nil))}
	if *tokens != "" {
		set, err := readTokens(*tokens)
		if err != nil {
			return err
		}
		c.Authorize = set.Authorize
	}
	g, err := gateway.New(c)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "gateway: %s on http://%s\n", *dir, l.Addr())
	return serve(ctx, g.Server(""), l)
}

// serve ends with ctx, or when the server fails.
func serve(ctx context.Context, srv *http.Server, l net.Listener) error {
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		srv.Close()
		return fmt.Errorf("not all requests were answered: %w", err)
	}
	return nil
}

// checkIn puts a file into the store, and prints what a message would carry.
func checkIn(ctx context.Context, store claimcheck.Store, tenant, file string, stdout io.Writer) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	checker, err := claimcheck.New(claimcheck.Config{Store: store})
	if err != nil {
		return err
	}
	claim := checker.CheckIn(ctx, []claimcheck.Body{{Tenant: tenant, ID: file, Data: data, ReceivedAt: time.Now()}})[0]
	if claim.Err != nil {
		return claim.Err
	}
	_, err = fmt.Fprintf(stdout, "claim   %s\nsize    %d\nsha256  %s\n", claim.Ref, claim.Size, claim.SHA256)
	return err
}

// readTokens reads lines of a token and the tenants that it opens.
func readTokens(file string) (*gateway.BearerTokens, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var tokens []gateway.BearerToken
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		switch words := strings.Fields(lines.Text()); {
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
		case len(words) == 2:
			tokens = append(tokens, gateway.BearerToken{Token: words[0], Tenants: strings.Split(words[1], ",")})
		default:
			return nil, fmt.Errorf("%s:%d: not a token and its tenants", file, n)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return gateway.NewBearerTokens(tokens)
}
