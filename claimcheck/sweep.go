package claimcheck

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"time"
)

const (
	// DefaultSweepInterval is how often [Sweeper.Run] sweeps.
	DefaultSweepInterval = time.Hour

	// leftoverAge is how old what a crash has left must be: no Put takes as long.
	leftoverAge = 24 * time.Hour
	// maxSweepDays is a hundred years.
	maxSweepDays = 36_500
	// maxSweepErrors is after how many failures of one sweep the store is left in peace.
	maxSweepErrors = 10
)

// A Day is what a store has of one tenant and one day.
type Day struct {
	// Path is what the keys of the day begin with, without the slash:
	// claims/tenant=<tenant>/dt=<YYYY-MM-DD>. Where Date is zero it is where the store has
	// something that is no day.
	Path   string
	Tenant string
	Date   time.Time // midnight UTC; zero for what has no date
}

// A DayStore is a PrunableStore that has the objects of a tenant and a day in one place, a
// folder for example, and so can remove them together.
type DayStore interface {
	PrunableStore

	// Days returns every day that has a place, in no order that is promised, and with a zero
	// Date whatever is where a tenant or a day should be and is none, which is not looked into.
	// An error ends it. To delete the days that were given already is fine.
	Days(ctx context.Context) iter.Seq2[Day, error]

	// DeleteDay removes the place of a day with everything that is in it, and returns how many
	// objects that were. That there is none is no error. A Day that Days does not return is an
	// [ErrInvalidRef].
	DeleteDay(ctx context.Context, day Day) (objects int, err error)

	// DeleteLeftovers removes what a Put that never ended has left and that was last changed
	// before a time, and returns how much that was.
	DeleteLeftovers(ctx context.Context, before time.Time) (files int, err error)
}

// A SweeperConfig configures a Sweeper. Store and Days are required.
type SweeperConfig struct {
	// Store is what is swept. In a [DayStore] whole days are removed at once, in any other
	// store one object after the other, by the day in its key.
	Store PrunableStore

	// Days is how many days a body is kept: a day is deleted when its end is that many times
	// 24 hours ago, so its first body is kept for up to a day more. At least 1. It must be more
	// than the longest time that a message can wait in any queue, be it for a replay or as a
	// dead letter.
	Days int

	// Interval is the time between two sweeps of Run. 0 means DefaultSweepInterval, 1 hour.
	Interval time.Duration

	// DryRun deletes nothing: the report says what would be.
	DryRun bool

	// Logger gets a line for every day that is deleted, for what has no date, and for every
	// failure. Nil means none.
	Logger *slog.Logger
}

// Validate returns everything that is wrong with c, joined, or nil.
func (c SweeperConfig) Validate() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("claimcheck: Store is required"))
	}
	if c.Days < 1 || c.Days > maxSweepDays {
		errs = append(errs, fmt.Errorf("claimcheck: Days is %d, not 1 to %d", c.Days, maxSweepDays))
	}
	if c.Interval < 0 {
		errs = append(errs, fmt.Errorf("claimcheck: Interval is %v, under 0", c.Interval))
	}
	return errors.Join(errs...)
}

// A Sweeper deletes the objects of days that are over for long enough. It goes by nothing but
// the date that is in the key; what has no date it leaves alone and reports. It looks below
// claims/ only. It trusts the clock.
//
// Nothing sweeps unless somebody makes a Sweeper and calls it. Several may sweep one store at
// the same time. Object stores have lifecycle rules, which do this better.
type Sweeper struct {
	config SweeperConfig
	log    *slog.Logger
}

// A SweepReport says what a sweep has deleted, or, in a dry run, would.
type SweepReport struct {
	Deleted   []Day    // the days, each once
	Objects   int      // how many objects were in them
	Undated   []string // the keys or paths of what was left alone because it has no date
	Leftovers int      // how many files of crashes were removed
}

// NewSweeper returns a Sweeper, or everything that is wrong with c.
func NewSweeper(c SweeperConfig) (*Sweeper, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Interval == 0 {
		c.Interval = DefaultSweepInterval
	}
	log := c.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Sweeper{config: c, log: log}, nil
}

// Run sweeps now and then after every interval, until ctx ends, whose error it returns. A
// sweep that fails is logged, and the next one tries again.
func (s *Sweeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(s.config.Interval)
	defer ticker.Stop()
	for {
		if _, err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.LogAttrs(ctx, slog.LevelError, "claim sweep failed", slog.String("error", err.Error()))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// Sweep deletes what is old enough, once. A failure does not end it, but ten do; the report
// says what was done before and after, and the error joins them.
func (s *Sweeper) Sweep(ctx context.Context) (SweepReport, error) {
	now := time.Now()
	w := sweep{Sweeper: s, now: now, oldest: now.UTC().AddDate(0, 0, -s.config.Days)}
	if store, ok := s.config.Store.(DayStore); ok {
		w.days(ctx, store)
	} else {
		w.keys(ctx)
	}
	return w.report, errors.Join(w.errs...)
}

// A sweep is one run of a Sweeper.
type sweep struct {
	*Sweeper
	now, oldest time.Time
	report      SweepReport
	errs        []error
}

// old reports whether a day has ended Days days ago.
func (w *sweep) old(day time.Time) bool { return !day.AddDate(0, 0, 1).After(w.oldest) }

func (w *sweep) days(ctx context.Context, store DayStore) {
	for day, err := range store.Days(ctx) {
		switch {
		case err != nil:
			w.errs = append(w.errs, err)
			return
		case day.Date.IsZero():
			w.undated(ctx, day.Path)
		case w.old(day.Date):
			n, err := w.day(ctx, store, day)
			w.report.Objects += n
			if err == nil {
				w.deleted(ctx, day)
			}
			if !w.goOn(ctx, err) {
				return
			}
		}
	}
	if w.config.DryRun {
		return
	}
	files, err := store.DeleteLeftovers(ctx, w.now.Add(-leftoverAge))
	w.report.Leftovers = files
	w.goOn(ctx, err)
}

// day deletes a day, or only counts its objects.
func (w *sweep) day(ctx context.Context, store DayStore, day Day) (objects int, err error) {
	if !w.config.DryRun {
		return store.DeleteDay(ctx, day)
	}
	for _, err := range store.List(ctx, day.Path+"/") {
		if err != nil {
			return objects, err
		}
		objects++
	}
	return objects, nil
}

func (w *sweep) keys(ctx context.Context) {
	seen := make(map[string]bool) // the days that were deleted from
	for key, err := range w.config.Store.List(ctx, "claims/") {
		if err != nil {
			w.errs = append(w.errs, err)
			return
		}
		ref, err := ParseKey(key)
		if err != nil {
			w.undated(ctx, key)
			continue
		}
		day := Day{Path: key[:strings.LastIndexByte(key, '/')], Tenant: ref.Tenant(), Date: ref.Time().Truncate(24 * time.Hour)}
		if !w.old(day.Date) {
			continue
		}
		if !w.config.DryRun {
			err = w.config.Store.Delete(ctx, key)
		}
		if err == nil {
			w.report.Objects++
			if !seen[day.Path] {
				seen[day.Path] = true
				w.deleted(ctx, day)
			}
		}
		if !w.goOn(ctx, err) {
			return
		}
	}
}

// goOn notes err, and reports whether the sweep goes on.
func (w *sweep) goOn(ctx context.Context, err error) bool {
	ended := ctx.Err()
	if err == nil {
		err = ended
	}
	if err != nil {
		w.errs = append(w.errs, err)
	}
	return ended == nil && len(w.errs) < maxSweepErrors
}

func (w *sweep) deleted(ctx context.Context, day Day) {
	w.report.Deleted = append(w.report.Deleted, day)
	w.log.LogAttrs(ctx, slog.LevelInfo, "claims deleted",
		slog.String("tenant_id", day.Tenant), slog.String("day", day.Date.Format(time.DateOnly)), slog.Bool("dry_run", w.config.DryRun))
}

func (w *sweep) undated(ctx context.Context, path string) {
	w.report.Undated = append(w.report.Undated, path)
	w.log.LogAttrs(ctx, slog.LevelWarn, "no claims of a day, left alone", slog.String("path", path))
}
