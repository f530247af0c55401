package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/watermill-envelope/envelope/outbox"
)

// unsettled is how many orders were billed whose events are not marked as delivered.
func (d *database) unsettled(ctx context.Context) (n int, err error) {
	err = d.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM example_invoices) - "+
		"(SELECT count(*) FROM example_outbox WHERE delivered_at IS NOT NULL)").Scan(&n)
	return n, err
}

// billedAndUnsettled waits for the moment in which a crash makes the relay publish again what was
// billed: when two more orders are unsettled than before.
func (d *database) billedAndUnsettled(ctx context.Context, before int) error {
	return until(ctx, time.Millisecond, func() (bool, error) {
		n, err := d.unsettled(ctx)
		return n >= before+2, err
	})
}

// settled waits until no event is left to be relayed.
func (d *database) settled(ctx context.Context) error {
	return until(ctx, 20*time.Millisecond, func() (bool, error) {
		var left int
		err := d.QueryRowContext(ctx, "SELECT count(*) FROM example_outbox WHERE delivered_at IS NULL").Scan(&left)
		return left == 0, err
	})
}

func until(ctx context.Context, interval time.Duration, done func() (bool, error)) error {
	look := time.NewTicker(interval)
	defer look.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// compare prints what the database has of the orders whose number begins with run.
func (d *database) compare(ctx context.Context, out io.Writer, run string) error {
	var orders, invoices, billed int
	err := d.QueryRowContext(ctx, d.text("SELECT count(*) FROM example_orders WHERE number LIKE ?"), run+"-%").Scan(&orders)
	if err != nil {
		return err
	}
	err = d.QueryRowContext(ctx, d.text("SELECT count(*), count(DISTINCT number) FROM example_invoices WHERE number LIKE ?"), run+"-%").Scan(&invoices, &billed)
	if err != nil {
		return err
	}
	stats, err := d.outbox.Stats(ctx, d.DB, outbox.DefaultMaxAttempts)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d orders were placed, %d are there; %d invoices for %d of them; %d events are dead letters\n",
		ordersPlaced, orders, invoices, billed, stats.DeadLetters)
	if orders != ordersPlaced || invoices != orders || billed != orders {
		return errDiffers
	}
	return nil
}
