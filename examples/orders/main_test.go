package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMain is the program itself when a test has started it as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-listen" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestKilled runs the whole of it: a process that is killed, and one that goes on.
func TestKilled(t *testing.T) {
	out := new(lines)
	if err := command(t.Context(), nil, out, out); err != nil {
		t.Fatalf("%v\n%s", err, out.text.String())
	}
	text := out.text.String()
	if !strings.Contains(text, "12 orders were placed, 12 are there; 12 invoices for 12 of them; 0 events are dead letters\n") {
		t.Errorf("printed\n%s", text)
	}
	_, after, ok := strings.Cut(text, "the process is killed\n")
	if !ok || !strings.Contains(after, "an event came again, and the inbox kept it away") {
		t.Errorf("nothing was published twice:\n%s", text)
	}
}

// TestCompare finds out when an invoice is missing, and when one is there twice.
func TestCompare(t *testing.T) {
	ctx := t.Context()
	db, err := open(ctx, filepath.Join(t.TempDir(), "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	for n := range ordersPlaced {
		if placed, err := db.place(ctx, OrderPlaced{Order: "run-" + string(rune('a'+n)), Cents: 1}); err != nil || !placed {
			t.Fatal(placed, err)
		}
	}
	out := io.Discard
	if err := db.compare(ctx, out, "run"); err != errDiffers {
		t.Errorf("without invoices: %v", err)
	}
	exec("INSERT INTO example_invoices SELECT number, cents FROM example_orders")
	if err := db.compare(ctx, out, "run"); err != nil {
		t.Errorf("with all invoices: %v", err)
	}
	exec("INSERT INTO example_invoices VALUES ('run-a', 1)")
	if err := db.compare(ctx, out, "run"); err != errDiffers {
		t.Errorf("with one invoice twice: %v", err)
	}
}

func TestEndpoint(t *testing.T) {
	db, err := open(t.Context(), filepath.Join(t.TempDir(), "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, stop := context.WithCancel(t.Context())
	out := new(lines)
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, out, discard, db, "127.0.0.1:0") }()
	url := out.wait(t, regexp.MustCompile(`http://\S+`))
	for _, tt := range []struct {
		body string
		want int
	}{
		{`{"order":"A-1","cents":1999}`, http.StatusCreated},
		{`{"order":"A-1","cents":1999}`, http.StatusOK},
		{`{"order":"","cents":1999}`, http.StatusBadRequest},
		{`{"order":"` + strings.Repeat("A", 65) + `"}`, http.StatusBadRequest},
		{`no order`, http.StatusBadRequest},
	} {
		response, err := new(http.Client).Post(url, "application/json", strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != tt.want {
			t.Errorf("%s: status %d, want %d", tt.body, response.StatusCode, tt.want)
		}
	}
	out.wait(t, regexp.MustCompile(`billing  A-1: 1999 cents`))
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
