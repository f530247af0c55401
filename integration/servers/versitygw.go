package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/watermill-envelope/envelope/integration/internal/cache"
)

// VersitygwVersion is the release of the Versity S3 gateway that [StartVersitygw] runs.
const VersitygwVersion = "1.8.0"

// InstallVersitygw builds the server with go install, once per version, and returns its folder.
// [StartVersitygw] calls it; calling it before keeps the minutes it takes out of the tests' time.
func InstallVersitygw(ctx context.Context) (string, error) {
	return cache.Dir(ctx, "versitygw-"+VersitygwVersion, func(ctx context.Context, dir string) error {
		cmd := exec.CommandContext(ctx, "go", "install", "github.com/versity/versitygw/cmd/versitygw@v"+VersitygwVersion)
		cmd.Dir = dir // outside every module, which its versions are none of
		cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go install: %w\n%s", err, out)
		}
		return nil
	})
}

// A Versitygw is a real S3 server that checks signatures and digests and keeps its objects in
// files. Its keys are new with each [StartVersitygw], and stay when it is restarted.
//
// What it does otherwise than Amazon S3: an access key that it does not know is a 404
// XAdminUserNotFound, and a key cannot have an object's key as its folder (409).
type Versitygw struct {
	*Process
	addr      string
	bucket    string
	accessKey string
	secretKey string
}

// URL is the endpoint of clients, which address buckets by path.
func (v *Versitygw) URL() string { return "http://" + v.addr }

// Bucket is the name of the bucket that is there.
func (v *Versitygw) Bucket() string { return v.bucket }

// Keys are the access key and the secret key of the only user.
func (v *Versitygw) Keys() (access, secret string) { return v.accessKey, v.secretKey }

// Client returns a client of the server, after the changes that are given. It makes one attempt
// per operation, so that tests see each failure.
func (v *Versitygw) Client(changes ...func(*s3.Options)) *s3.Client {
	return s3Client(v.URL(), v.accessKey, v.secretKey, changes)
}

// Start starts the stopped server on the same port, keys and objects, and waits until it
// answers; see [Process.Start].
func (v *Versitygw) Start(ctx context.Context) error {
	if err := v.Process.Start(ctx); err != nil {
		return err
	}
	// It says that it listens a moment before it does.
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", v.addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("servers: start versitygw: %w; its last lines:\n%s", err, v.LogTail(30))
		}
	}
}

// Restart is Stop and Start.
func (v *Versitygw) Restart(ctx context.Context) error { return errors.Join(v.Stop(), v.Start(ctx)) }

// StartVersitygw starts a server with an empty bucket and waits until it serves. See
// [Process.Start] for the context.
func StartVersitygw(ctx context.Context) (*Versitygw, error) {
	bin, err := InstallVersitygw(ctx)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	dir, err := tempDir("versitygw")
	if err != nil {
		return nil, err
	}
	v, err := newVersitygw(ctx, dir, filepath.Join(bin, "versitygw"), ports[0])
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return v, nil
}

func newVersitygw(ctx context.Context, dir, server string, port int) (*Versitygw, error) {
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	v := &Versitygw{addr: loopback(port), bucket: "claims-bucket", accessKey: rand.Text(), secretKey: rand.Text()}
	v.Process = newProcess("versitygw", dir, "Admin/S3 service listening on:", func() *exec.Cmd {
		cmd := exec.Command(server, "--port", v.addr, "--region", "us-east-1", "--keep-alive", "posix", data)
		cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+v.accessKey, "ROOT_SECRET_KEY="+v.secretKey)
		return cmd
	})
	if err := v.Start(ctx); err != nil {
		return nil, err
	}
	if _, err := v.Client().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(v.bucket)}); err != nil {
		return nil, errors.Join(fmt.Errorf("servers: make versitygw's bucket: %w", err), v.Stop())
	}
	return v, nil
}
