package outbox

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
)

// A tally is what an Observer was told.
type tally map[Outcome]int

func (t tally) Settled(o Outcome, events int) { t[o] += events }

func TestSettle(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	rows := []row{{id: 1}, {id: 2}, {id: 3}}
	down := errors.New("connection refused")
	for _, test := range []struct {
		rule    string
		ctx     context.Context
		results []any // of each try: rows that changed, or an error
		want    tally
		fails   bool
	}{
		{"at once", t.Context(), []any{3}, tally{OutcomeDelivered: 3}, false},
		{"some are somebody else's", t.Context(), []any{1}, tally{OutcomeDelivered: 1, OutcomeFenced: 2}, false},
		{"when the database is back", t.Context(), []any{down, down, 3}, tally{OutcomeDelivered: 3}, false},
		{"never", t.Context(), []any{down, down, down, down}, tally{}, true},
		{"at the end of the work, at once", stopped, []any{3}, tally{OutcomeDelivered: 3}, false},
		{"at the end of the work, once more", stopped, []any{down, 3}, tally{OutcomeDelivered: 3}, false},
		{"at the end of the work, no more", stopped, []any{down, down}, tally{}, true},
	} {
		got := tally{}
		e := engine{config: WorkerConfig{Observer: got}, log: slog.New(slog.DiscardHandler), stop: test.ctx}
		tries := 0
		err := e.settle(OutcomeDelivered, rows, func(ctx context.Context) (int, error) {
			if ctx.Err() != nil {
				t.Errorf("%s: the end of the work ends the statement", test.rule)
			}
			result := test.results[tries]
			tries++
			if err, ok := result.(error); ok {
				return 0, err
			}
			return result.(int), nil
		})
		if (err != nil) != test.fails || tries != len(test.results) {
			t.Errorf("%s: %v after %d tries, want %d", test.rule, err, tries, len(test.results))
		}
		for _, o := range slices.Concat(keys(got), keys(test.want)) {
			if got[o] != test.want[o] {
				t.Errorf("%s: %d %s, want %d", test.rule, got[o], o, test.want[o])
			}
		}
	}
}

func keys(t tally) (out []Outcome) {
	for o := range t {
		out = append(out, o)
	}
	return out
}
