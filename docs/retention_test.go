package docs_test

import (
	"context"
	"log/slog"
	"time"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
)

func sweep(ctx context.Context, store claimcheck.PrunableStore) error {
	sweeper, err := claimcheck.NewSweeper(claimcheck.SweeperConfig{
		Store:  store,
		Days:   90,
		Logger: slog.Default(),
	})
	if err != nil {
		return err
	}
	return sweeper.Run(ctx)
}

func eraseTenant(ctx context.Context, store claimcheck.PrunableStore, log *slog.Logger) error {
	done, err := claimcheck.Erase(ctx, store, "acme", time.Time{}, claimcheck.EraseOptions{All: true})
	if err != nil {
		return err
	}
	log.Info("erased", "packs", done.Deleted, "left", len(done.Undated))
	return nil
}

func checkClaims(ctx context.Context, store claimcheck.Store, archive []*envelope.Envelope, log *slog.Logger) {
	claims := func(yield func(claimcheck.FsckClaim) bool) {
		for _, e := range archive {
			if e.Claim != "" && !yield(claimcheck.FsckClaim{Ref: e.Claim, SHA256: e.SHA256, Size: e.Size, ID: e.ID}) {
				return
			}
		}
	}
	for res := range claimcheck.Fsck(ctx, store, claims) {
		switch {
		case res.State.Bad():
			log.Error("body lost", "state", res.State, "message_id", res.ID, "tenant_id", res.Tenant, "error", res.Err)
		case res.State == claimcheck.FsckUnchecked:
			log.Warn("body not checked", "message_id", res.ID, "error", res.Err)
		}
	}
}
