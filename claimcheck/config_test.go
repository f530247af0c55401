package claimcheck_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope/claimcheck"
)

func TestConfigValidate(t *testing.T) {
	err := claimcheck.Config{PackMaxBytes: -1, MaxInFlight: -2, MaxBodyBytes: -3}.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"Store is required", "PackMaxBytes is -1", "MaxInFlight is -2", "MaxBodyBytes is -3"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if err := (claimcheck.Config{Store: noStore{}, PackMaxBytes: claimcheck.MaxPackBytes + 1}).Validate(); err == nil {
		t.Error("packs of more than 4 GiB are configured")
	}
	if err := (claimcheck.Config{Store: noStore{}}).Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

// noStore is a Store that is always down.
type noStore struct{}

func (noStore) Put(context.Context, string, *io.SectionReader) error {
	return &claimcheck.Error{Code: claimcheck.CodeUnavailable}
}

func (noStore) Get(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return nil, &claimcheck.Error{Code: claimcheck.CodeUnavailable}
}
