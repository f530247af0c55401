// Command orders is a shop whose orders and events are written in one transaction: an HTTP
// endpoint takes an order, an outbox keeps the event beside it, a relay publishes it, and billing
// handles it once, in a transaction that remembers that it did.
//
//	go run ./orders
//	go run ./orders -dsn postgres://shop@127.0.0.1:5432/shop
//	go run ./orders -dsn 'shop@tcp(127.0.0.1:3306)/shop'
//	go run ./orders -listen :8080
//
// Without -listen it shows what that is good for. It starts itself as a second process, places
// orders there over HTTP, kills it with SIGKILL while it is at work, starts it again on the same
// database, and compares in the end what is in the tables: its status is 1 unless each order has
// one event and one invoice. With -listen it serves until it is interrupted:
//
//	curl -d '{"order":"A-1","cents":1999}' localhost:8080/orders
//
// The database is a SQLite in a temporary folder, or the one that -dsn says: a PostgreSQL, a MySQL
// or MariaDB, or a file of SQLite. The tables that it makes there stay.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("orders", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dsn := flags.String("dsn", "", "the `database`: postgres://..., user:password@tcp(host:port)/name of a MySQL or MariaDB, or a file of SQLite; a temporary one when empty")
	listen := flags.String("listen", "", "serve on this `address`, such as :8080, until interrupted")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dsn == "" {
		folder, err := os.MkdirTemp("", "envelope-orders-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		*dsn = filepath.Join(folder, "shop.db")
	}
	db, err := open(ctx, *dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	if *listen == "" {
		return show(ctx, stdout, db, *dsn)
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return serve(ctx, stdout, log, db, *listen)
}
