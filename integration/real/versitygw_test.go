package real

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/watermill-envelope/envelope/integration/servers"
)

// versitygw starts a server for one test: it is ready in a moment.
func versitygw(t *testing.T) *servers.Versitygw {
	t.Helper()
	v, err := servers.StartVersitygw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, v)
	return v
}

// The tests of stores rely on a server that refuses what Amazon S3 refuses.
func TestVersitygwIsStrict(t *testing.T) {
	v := versitygw(t)
	host, _, err := net.SplitHostPort(strings.TrimPrefix(v.URL(), "http://"))
	if err != nil || host != "127.0.0.1" {
		t.Fatalf("URL %s", v.URL())
	}
	object := &s3.PutObjectInput{Bucket: aws.String(v.Bucket()), Key: aws.String("k"), Body: bytes.NewReader([]byte("body")), IfNoneMatch: aws.String("*")}
	if _, err := v.Client().PutObject(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if err := v.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	code := func(err error) string {
		if api, ok := errors.AsType[smithy.APIError](err); ok {
			return api.ErrorCode()
		}
		return ""
	}
	if _, err := v.Client().PutObject(t.Context(), object); code(err) != "PreconditionFailed" {
		t.Errorf("a second put after a restart: %v", err)
	}
	access, _ := v.Keys()
	wrong := v.Client(func(o *s3.Options) {
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: access, SecretAccessKey: "another secret"}, nil
		})
	})
	if _, err := wrong.PutObject(t.Context(), object); code(err) != "SignatureDoesNotMatch" {
		t.Errorf("a put with another secret: %v", err)
	}
}
