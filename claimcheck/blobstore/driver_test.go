package blobstore_test

import (
	"context"
	"errors"
	"io"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/blobstore"
)

// A script is a driver that answers every operation as it is told.
type script struct {
	driver.Bucket
	read, attributes, list, remove, write error

	body string // of every object, as far as it comes
	size int64  // of every object, as the driver says
	got  *driver.WriterOptions
	typ  string
	put  []byte
}

// coded is an error of which the driver knows the code.
type coded struct {
	error
	code gcerrors.ErrorCode
}

func (c coded) Unwrap() error { return c.error }

func (*script) Close() error { return nil }

func (*script) ErrorCode(err error) gcerrors.ErrorCode {
	if c, ok := errors.AsType[coded](err); ok {
		return c.code
	}
	return gcerrors.Unknown
}

func (s *script) Attributes(context.Context, string) (*driver.Attributes, error) {
	return &driver.Attributes{Size: s.size}, s.attributes
}

func (s *script) ListPaged(_ context.Context, o *driver.ListOptions) (*driver.ListPage, error) {
	return &driver.ListPage{}, s.list
}

func (s *script) Delete(context.Context, string, *driver.DeleteOptions) error { return s.remove }

func (s *script) NewRangeReader(context.Context, string, int64, int64, *driver.ReaderOptions) (driver.Reader, error) {
	return &scriptReader{strings.NewReader(s.body), s.size}, s.read
}

type scriptReader struct {
	io.Reader
	size int64
}

func (*scriptReader) Close() error { return nil }
func (*scriptReader) As(any) bool  { return false }
func (r *scriptReader) Attributes() *driver.ReaderAttributes {
	return &driver.ReaderAttributes{ContentType: "application/octet-stream", Size: r.size}
}

func (s *script) NewTypedWriter(_ context.Context, _, contentType string, o *driver.WriterOptions) (driver.Writer, error) {
	s.got, s.typ = o, contentType
	return &scriptWriter{s}, nil
}

// A scriptWriter has the trap of azureblob's.
type scriptWriter struct{ s *script }

func (*scriptWriter) Write([]byte) (int, error) { panic("Write instead of Upload") }
func (w *scriptWriter) Close() error            { return w.s.write }
func (w *scriptWriter) Upload(r io.Reader) (err error) {
	w.s.put, err = io.ReadAll(r)
	return err
}

// key is the key of a pack.
func key() string {
	ref, err := claimcheck.NewRef("acme", "01M39VMD8RA3C5HR4RBV67Y000")
	if err != nil {
		panic(err)
	}
	return ref.Key()
}

// call runs one operation of a store on the script; it is named as in Error.Op.
func call(s *script, op string) error {
	b := blob.NewBucket(s)
	defer b.Close()
	store, err := blobstore.New(blobstore.Config{Bucket: b})
	if err != nil {
		return err
	}
	ctx := context.Background()
	switch op {
	case "put":
		return store.Put(ctx, key(), io.NewSectionReader(strings.NewReader("an object"), 0, 9))
	case "get":
		_, err := readAll(store, 5, 10)
		return err
	case "delete":
		return store.Delete(ctx, key())
	}
	for _, e := range store.List(ctx, "claims/") {
		err = e
	}
	return err
}

func readAll(s *blobstore.Store, off, n int64) (string, error) {
	r, err := s.Get(context.Background(), key(), off, n)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}
