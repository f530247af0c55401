package main

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	"github.com/watermill-envelope/envelope/claimcheck/s3store"
)

// bodies is where the bodies lie that are too large for a message.
type bodies struct {
	store claimcheck.PrunableStore
	where string // for people
	// read returns an object without the help of this library.
	read  func(ctx context.Context, key string) ([]byte, error)
	close func() error
}

// openFiles keeps bodies in a folder.
func openFiles(dir string) (bodies, error) {
	store, err := filestore.New(dir)
	if err != nil {
		return bodies{}, err
	}
	return bodies{store, "files", func(_ context.Context, key string) ([]byte, error) {
		return os.ReadFile(filepath.Join(dir, filepath.FromSlash(key)))
	}, store.Close}, nil
}

// openS3 keeps bodies in a bucket: http://host:port/bucket, with the credentials and the
// region of the usual variables.
func openS3(endpoint string) (bodies, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") == "" {
		return bodies{}, errors.New("-s3 is not the URL of a bucket, such as http://localhost:9000/claims")
	}
	bucket := strings.Trim(u.Path, "/")
	u.Path = ""
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(u.String()),
		UsePathStyle: true,
		Region:       envOr("AWS_REGION", "us-east-1"),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{
				AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
				SessionToken: os.Getenv("AWS_SESSION_TOKEN"),
			}, nil
		}),
	})
	store, err := s3store.New(s3store.Config{Client: client, Bucket: bucket})
	if err != nil {
		return bodies{}, err
	}
	return bodies{store, "the bucket " + bucket, func(ctx context.Context, key string) ([]byte, error) {
		object, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
		if err != nil {
			return nil, err
		}
		defer object.Body.Close()
		return io.ReadAll(object.Body)
	}, func() error { return nil }}, nil
}

func envOr(name, other string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return other
}

// witness reads the body of a claim as anybody can who has the object: with a ZIP library.
func (b bodies) witness(ctx context.Context, claim string) (key string, body []byte, err error) {
	ref, err := claimcheck.ParseRef(claim)
	if err != nil {
		return "", nil, err
	}
	object, err := b.read(ctx, ref.Key())
	if err != nil {
		return "", nil, err
	}
	files, err := zip.NewReader(bytes.NewReader(object), int64(len(object)))
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", ref.Key(), err)
	}
	entry, err := files.Open(ref.ClaimID())
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", ref.Key(), err)
	}
	defer entry.Close()
	body, err = io.ReadAll(entry)
	return ref.Key(), body, err
}

// openBodies opens the bucket or the folder; a folder without a name is a temporary one. What
// it returns closes them, and removes that folder, unless messages outlive the program: then it
// is kept.
func (c *config) openBodies(bucketURL, folder string, keep bool) (done func() error, err error) {
	remove := func() error { return nil }
	if bucketURL != "" {
		if folder != "" {
			return nil, errors.New("-s3 and -store are two places for one thing")
		}
		c.bodies, err = openS3(bucketURL)
		return c.bodies.close, err
	}
	if folder == "" {
		if folder, err = os.MkdirTemp("", "envelope-demo-bodies-"); err != nil {
			return nil, err
		}
		if keep {
			c.log.Warn("large bodies are kept in a temporary folder: choose one with -store", "folder", folder)
		} else {
			remove = func() error { return os.RemoveAll(folder) }
		}
	}
	if c.bodies, err = openFiles(folder); err != nil {
		return nil, errors.Join(err, remove())
	}
	return func() error { return errors.Join(c.bodies.close(), remove()) }, nil
}
