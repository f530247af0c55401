package filestore_test

import (
	"context"
	"fmt"
	"os"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
)

// A large body is checked in by one process and redeemed by another that has the same folder.
func Example() {
	dir, err := os.MkdirTemp("", "claims")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := filestore.New(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	checker, err := claimcheck.New(claimcheck.Config{Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	claim := checker.CheckIn(ctx, []claimcheck.Body{{Tenant: "acme", ID: "1", Data: []byte("a large body")}})[0]
	if claim.Err != nil {
		fmt.Println(claim.Err)
		return
	}
	body, err := checker.Redeem(ctx, claim.Ref.String(), claim.SHA256, claim.Size)
	fmt.Printf("%s %v\n", body, err)
	// Output: a large body <nil>
}

// Bodies are kept for 30 days. A dry run says what would be deleted.
func ExampleStore_retention() {
	dir, err := os.MkdirTemp("", "claims")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := filestore.New(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	sweeper, err := claimcheck.NewSweeper(claimcheck.SweeperConfig{Store: store, Days: 30, DryRun: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	// A service runs go sweeper.Run(ctx) instead, which sweeps every hour.
	report, err := sweeper.Sweep(context.Background())
	fmt.Println(len(report.Deleted), report.Objects, err)
	// Output: 0 0 <nil>
}
