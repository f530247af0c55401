package blobstore

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"
	"sync"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// Config is what a [Store] is made of.
type Config struct {
	// Bucket is where the objects are. Required. With [blob.PrefixedBucket] their keys are no
	// longer those that others look for.
	Bucket *blob.Bucket
	// WriterOptions are the options of every put: BufferSize, MaxConcurrency, Metadata, and
	// BeforeWrite for what only one driver has, such as a KMS key. IfNotExist is always set.
	// An empty ContentType is application/octet-stream. ContentMD5 must be empty: it would be
	// one object's.
	WriterOptions blob.WriterOptions
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Bucket == nil {
		errs = append(errs, errors.New("blobstore: no Bucket"))
	}
	if len(c.WriterOptions.ContentMD5) > 0 {
		errs = append(errs, errors.New("blobstore: WriterOptions.ContentMD5 is set"))
	}
	return errors.Join(errs...)
}

// A Store keeps objects in one bucket.
type Store struct {
	bucket  *blob.Bucket
	options blob.WriterOptions

	mu   sync.Mutex
	puts map[string]chan struct{} // closed when the put of that key has ended
}

var _ claimcheck.PrunableStore = (*Store)(nil)

// New returns a store, or everything that is wrong with its configuration. It asks the bucket
// nothing.
func New(c Config) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	options := c.WriterOptions
	options.IfNotExist = true
	if options.ContentType == "" {
		options.ContentType = "application/octet-stream"
	}
	return &Store{bucket: c.Bucket, options: options, puts: map[string]chan struct{}{}}, nil
}

// Put implements [claimcheck.Store].
func (s *Store) Put(ctx context.Context, key string, obj *io.SectionReader) error {
	if err := check(ctx, "put", key); err != nil {
		return err
	}
	done, err := s.begin(ctx, key)
	if err != nil {
		return failure(ctx, "put", key, err)
	}
	defer done()
	uploading, cancel := context.WithCancel(ctx)
	defer cancel()
	src := &source{ctx: ctx, cancel: cancel, obj: io.NewSectionReader(obj, 0, obj.Size()), left: obj.Size()}
	options := s.options
	err = s.bucket.Upload(uploading, key, src, &options)
	switch {
	case src.err != nil:
		return failure(ctx, "put", key, src.err)
	case gcerrors.Code(err) == gcerrors.FailedPrecondition || gcerrors.Code(err) == gcerrors.AlreadyExists:
		return s.taken(ctx, key, err)
	case err != nil:
		return failure(ctx, "put", key, err)
	}
	return nil
}

// taken is the error of a put whose condition failed. A bucket that was closed says the same,
// of everything.
func (s *Store) taken(ctx context.Context, key string, err error) error {
	e := failure(ctx, "put", key, err)
	if _, existsErr := s.bucket.Exists(ctx, key); ctx.Err() == nil && gcerrors.Code(existsErr) != gcerrors.FailedPrecondition {
		e.Code = claimcheck.CodeExists
	}
	return e
}

// begin waits until no other put of the key is under way.
func (s *Store) begin(ctx context.Context, key string) (done func(), err error) {
	for {
		s.mu.Lock()
		other, busy := s.puts[key]
		if !busy {
			mine := make(chan struct{})
			s.puts[key] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.puts, key)
				s.mu.Unlock()
				close(mine)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Get implements [claimcheck.Store].
func (s *Store) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if err := check(ctx, "get", key); err != nil {
		return nil, err
	}
	r, err := s.bucket.NewRangeReader(ctx, key, off, n, nil)
	switch {
	case err == nil:
		return &reader{ctx: ctx, key: key, body: r, left: min(n, max(r.Size()-off, 0))}, nil
	case gcerrors.Code(err) == gcerrors.NotFound:
		return nil, s.missing(ctx, "get", key, err)
	}
	// Most services refuse a range behind the end (HTTP status 416), each in its own words.
	if attributes, attrErr := s.bucket.Attributes(ctx, key); attrErr == nil && off >= attributes.Size {
		return http.NoBody, nil
	}
	return nil, failure(ctx, "get", key, err)
}

// missing is the error of an operation whose answer was NotFound. A bucket that is not there
// answers the same to a list.
func (s *Store) missing(ctx context.Context, op, key string, err error) error {
	e := failure(ctx, op, key, err)
	if e.Code != claimcheck.CodeUnavailable || ctx.Err() != nil {
		return e
	}
	_, _, listErr := s.bucket.ListPage(ctx, blob.FirstPageToken, 1, &blob.ListOptions{Prefix: key})
	if gcerrors.Code(listErr) != gcerrors.NotFound || refused(listErr) {
		e.Code = claimcheck.CodeNotFound
	}
	return e
}

// root begins every key of [claimcheck.Ref.Key], and maxKey is the length of the longest.
const (
	root   = "claims/tenant="
	maxKey = 119
)

// List implements [claimcheck.PrunableStore].
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		fail := func(err error) { yield("", failure(ctx, "list", prefix, err)) }
		if err := ctx.Err(); err != nil {
			fail(err)
			return
		}
		if !begins(prefix) {
			return
		}
		options := &blob.ListOptions{Prefix: root}
		if len(prefix) > len(root) {
			options.Prefix = prefix
		}
		for list := s.bucket.List(options); ; {
			object, err := list.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				fail(err)
				return
			}
			if _, err := claimcheck.ParseKey(object.Key); err == nil && strings.HasPrefix(object.Key, prefix) && !yield(object.Key, nil) {
				return
			}
		}
	}
}

// begins reports whether a key can begin with prefix. Drivers refuse some of the others.
func begins(prefix string) bool {
	if len(prefix) <= len(root) {
		return strings.HasPrefix(root, prefix)
	}
	return strings.HasPrefix(prefix, root) && len(prefix) <= maxKey && !strings.ContainsFunc(prefix, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("-_=/", r)
	})
}

// Delete implements [claimcheck.PrunableStore].
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := check(ctx, "delete", key); err != nil {
		return err
	}
	err := s.bucket.Delete(ctx, key)
	if err == nil {
		return nil
	}
	if gcerrors.Code(err) == gcerrors.NotFound {
		if err := s.missing(ctx, "delete", key, err); !errors.Is(err, claimcheck.ErrNotFound) {
			return err
		}
		return nil
	}
	return failure(ctx, "delete", key, err)
}

// check refuses what the bucket is not asked for.
func check(ctx context.Context, op, key string) error {
	if _, err := claimcheck.ParseKey(key); err != nil {
		return &claimcheck.Error{Code: claimcheck.CodeInvalidRef, Op: op, Key: key, Err: errors.Unwrap(err)}
	}
	if err := ctx.Err(); err != nil {
		return failure(ctx, op, key, err)
	}
	return nil
}
