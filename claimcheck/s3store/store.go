package s3store

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// Client is what a [Store] needs of an [s3.Client], which has it. Something of one's own may
// stand between, to set RequestPayer or ExpectedBucketOwner on every request for example.
type Client interface {
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	ListObjectsV2(context.Context, *s3.ListObjectsV2Input, ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
	DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
}

// Config is what a [Store] is made of.
type Config struct {
	// Client talks to the server. Required. A put is tried again by the client, as its own
	// options say: the body can be read again.
	Client Client
	// Bucket is the name of the bucket, or the ARN of an access point. Required. It must
	// exist; the store never makes one.
	Bucket string
	// PutInput, when it is not nil, may change the request of every Put: the KMS key
	// (ServerSideEncryption, SSEKMSKeyId), Tagging, StorageClass, ChecksumAlgorithm, and
	// whatever else does not have to be said again to read the object. It finds Bucket and Key
	// set; those, Body and ContentLength are not its to change. Several goroutines call it.
	PutInput func(*s3.PutObjectInput)
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Client == nil {
		errs = append(errs, errors.New("s3store: no Client"))
	}
	if c.Bucket == "" {
		errs = append(errs, errors.New("s3store: no Bucket"))
	}
	return errors.Join(errs...)
}

// A Store keeps objects in one bucket. It holds no body in memory: a put reads from the
// caller's, and a get streams.
type Store struct {
	client   Client
	bucket   string
	putInput func(*s3.PutObjectInput)
}

var _ claimcheck.PrunableStore = (*Store)(nil)

// New returns a store, or everything that is wrong with its configuration. It sends no request.
func New(c Config) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Store{client: c.Client, bucket: c.Bucket, putInput: c.PutInput}, nil
}

// Put implements [claimcheck.Store] with one PutObject.
func (s *Store) Put(ctx context.Context, key string, obj *io.SectionReader) error {
	if err := check(ctx, "put", key); err != nil {
		return err
	}
	body := &source{ctx: ctx, obj: io.NewSectionReader(obj, 0, obj.Size())}
	in := &s3.PutObjectInput{Bucket: aws.String(s.bucket), Key: aws.String(key), IfNoneMatch: aws.String("*")}
	if s.putInput != nil {
		s.putInput(in)
	}
	in.Bucket, in.Key = aws.String(s.bucket), aws.String(key)
	in.Body, in.ContentLength = body, aws.Int64(obj.Size())
	out, err := s.client.PutObject(ctx, in, noChecksums)
	if err != nil {
		return failure(ctx, "put", key, err)
	}
	if aws.ToString(out.ETag) == "" {
		return failure(ctx, "put", key, errors.New("answer without an ETag, which S3 always sends"))
	}
	return nil
}

// Get implements [claimcheck.Store] with one GetObject of a range.
func (s *Store) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if err := check(ctx, "get", key); err != nil {
		return nil, err
	}
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: aws.String(s.bucket), Key: aws.String(key),
		Range: aws.String("bytes=" + strconv.FormatInt(off, 10) + "-" + strconv.FormatInt(off+n-1, 10)),
	}, noChecksums)
	if err != nil {
		if answerOf(err).says("InvalidRange", http.StatusRequestedRangeNotSatisfiable) {
			return http.NoBody, nil // the object ends at or before off
		}
		return nil, failure(ctx, "get", key, err)
	}
	length, err := rangeLength(aws.ToString(out.ContentRange), off, n)
	if err != nil {
		out.Body.Close()
		return nil, failure(ctx, "get", key, err)
	}
	return &reader{ctx: ctx, key: key, body: out.Body, left: length}, nil
}

// root begins every key of [claimcheck.Ref.Key].
const root = "claims/tenant="

// List implements [claimcheck.PrunableStore], a page of at most 1,000 keys per request.
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
		in := &s3.ListObjectsV2Input{
			Bucket: aws.String(s.bucket),
			Prefix: aws.String(root),
			// XML cannot say every key that somebody may have put there.
			EncodingType: types.EncodingTypeUrl,
		}
		if len(prefix) > len(root) {
			in.Prefix = aws.String(prefix)
		}
		for {
			out, err := s.client.ListObjectsV2(ctx, in, noChecksums)
			if err == nil && aws.ToString(out.Name) == "" {
				err = errors.New("answer without the bucket's name, which S3 always sends")
			}
			if err != nil {
				fail(err)
				return
			}
			for _, object := range out.Contents {
				if err := ctx.Err(); err != nil {
					fail(err)
					return
				}
				key := aws.ToString(object.Key)
				if out.EncodingType == types.EncodingTypeUrl {
					key, _ = url.QueryUnescape(key) // what cannot be decoded is none of ours
				}
				if _, err := claimcheck.ParseKey(key); err == nil && strings.HasPrefix(key, prefix) && !yield(key, nil) {
					return
				}
			}
			if !aws.ToBool(out.IsTruncated) {
				return
			}
			next := aws.ToString(out.NextContinuationToken)
			if next == "" || next == aws.ToString(in.ContinuationToken) {
				fail(errors.New("truncated list that does not say where it goes on"))
				return
			}
			in.ContinuationToken = aws.String(next)
		}
	}
}

// begins reports whether a key can begin with prefix. Servers refuse some of the others.
func begins(prefix string) bool {
	if len(prefix) <= len(root) {
		return strings.HasPrefix(root, prefix)
	}
	return strings.HasPrefix(prefix, root) && len(prefix) <= maxKey && !strings.ContainsFunc(prefix, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("-_=/", r)
	})
}

// maxKey is the length of the longest key.
const maxKey = 119

// Delete implements [claimcheck.PrunableStore] with one DeleteObject.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := check(ctx, "delete", key); err != nil {
		return err
	}
	_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String(s.bucket), Key: aws.String(key)}, noChecksums)
	if err != nil && !answerOf(err).noSuchKey() {
		return failure(ctx, "delete", key, err)
	}
	return nil
}

// noChecksums sets an operation's options as the documentation of the package says.
func noChecksums(o *s3.Options) {
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
}

// check refuses what no request is made for.
func check(ctx context.Context, op, key string) error {
	if _, err := claimcheck.ParseKey(key); err != nil {
		return &claimcheck.Error{Code: claimcheck.CodeInvalidRef, Op: op, Key: key, Err: errors.Unwrap(err)}
	}
	if err := ctx.Err(); err != nil {
		return failure(ctx, op, key, err)
	}
	return nil
}
