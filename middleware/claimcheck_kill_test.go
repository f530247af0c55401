package middleware_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// What the child processes of TestProcessKilled are told.
const (
	killStep   = "CLAIMCHECK_KILL_STEP"
	killFolder = "CLAIMCHECK_KILL_FOLDER"
)

// kill ends this process as a crash does: nothing that was deferred runs.
func kill() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// killSteps are where a process ends, whether it had received a message, and how many objects
// there are once the message was handled.
var killSteps = []struct {
	name     string
	received bool
	objects  int
	child    func(t *testing.T, s *store, inner *filestore.Store)
}{
	{"in the middle of the put", false, 1, func(t *testing.T, s *store, inner *filestore.Store) {
		s.put = func(ctx context.Context, key string, obj *io.SectionReader) error {
			half := io.NewSectionReader(killAfter{obj, obj.Size() / 2}, 0, obj.Size())
			return inner.Put(ctx, key, half)
		}
		_ = wrap(t, claimCheck(t, hookmw.ClaimCheckConfig{Store: s}), &broker{}, nil).Publish("hooks", hook(text(70_000)))
	}},
	{"between put and publish", false, 2, func(t *testing.T, s *store, _ *filestore.Store) {
		pub := wrap(t, claimCheck(t, hookmw.ClaimCheckConfig{Store: s}), killer{}, (&broker{}).Marshaler)
		_ = pub.Publish("hooks", hook(text(70_000)))
	}},
	{"between receiving and redeeming", true, 1, func(t *testing.T, s *store, _ *filestore.Store) {
		s.get = func(context.Context, string, int64, int64) (io.ReadCloser, error) {
			kill()
			return nil, nil
		}
		_, _ = handle(t, claimCheck(t, hookmw.ClaimCheckConfig{Store: s}), receivedBefore(t))
	}},
	{"in the handler", true, 1, func(t *testing.T, s *store, _ *filestore.Store) {
		_, _ = claimCheck(t, hookmw.ClaimCheckConfig{Store: s}).Middleware(func(msg *message.Message) ([]*message.Message, error) {
			if len(msg.Payload) == 70_000 {
				kill()
			}
			return nil, nil
		})(receivedBefore(t))
	}},
}

// A killAfter ends the process when what is behind at is read.
type killAfter struct {
	io.ReaderAt
	at int64
}

func (k killAfter) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > k.at {
		kill()
	}
	return k.ReaderAt.ReadAt(p, off)
}

// A killer is a publisher that the process does not survive.
type killer struct{}

func (killer) Publish(string, ...*message.Message) error {
	kill()
	return nil
}

func (killer) Close() error { return nil }

// receivedBefore is the message that the parent published.
func receivedBefore(t *testing.T) *message.Message {
	sealed, err := os.ReadFile(os.Getenv(killFolder) + "/message")
	if err != nil {
		t.Fatal(err)
	}
	msg, err := envelope.Open(sealed)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// on returns a store that keeps its objects in the folder.
func on(t *testing.T, folder string) (*store, *filestore.Store) {
	t.Helper()
	inner, err := filestore.New(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inner.Close() })
	return &store{put: inner.Put, get: inner.Get}, inner
}

// A process is killed, wherever: the message is published by the next attempt, or delivered
// again and redeemed, and no reader ever sees half an object.
func TestProcessKilled(t *testing.T) {
	if name := os.Getenv(killStep); name != "" { // a child
		s, inner := on(t, os.Getenv(killFolder)+"/store")
		for _, step := range killSteps {
			if step.name == name {
				step.child(t, s, inner)
			}
		}
		return
	}
	for _, step := range killSteps {
		t.Run(step.name, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.Mkdir(folder+"/store", 0o700); err != nil {
				t.Fatal(err)
			}
			s, inner := on(t, folder+"/store")
			cc, b := claimCheck(t, hookmw.ClaimCheckConfig{Store: s}), &broker{}
			pub := wrap(t, cc, b, nil)
			if step.received {
				if err := pub.Publish("hooks", hook(text(70_000))); err != nil {
					t.Fatal(err)
				}
				value, err := b.records[0].Value.Encode()
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(folder+"/message", value, 0o600); err != nil {
					t.Fatal(err)
				}
			}

			child := exec.Command(os.Args[0], "-test.run=^TestProcessKilled$")
			child.Env = append(os.Environ(), killStep+"="+step.name, killFolder+"="+folder)
			if out, err := child.CombinedOutput(); err == nil || child.ProcessState.Exited() {
				t.Fatalf("the child was not killed: %v\n%s", err, out)
			}

			if !step.received {
				if err := pub.Publish("hooks", hook(text(70_000))); err != nil {
					t.Fatal(err)
				}
			}
			if body, err := handle(t, cc, b.receive(t, 0)); err != nil || !bytes.Equal(body, text(70_000)) {
				t.Errorf("handled %d bytes, error %v", len(body), err)
			}
			objects := 0
			for key, err := range inner.List(t.Context(), "") {
				if err != nil {
					t.Fatal(err)
				}
				r, err := inner.Get(t.Context(), key, 0, 1<<30)
				if err != nil {
					t.Fatal(err)
				}
				object, err := io.ReadAll(r)
				if err != nil || !bytes.Contains(object, text(70_000)) {
					t.Errorf("%s has %d bytes, error %v", key, len(object), err)
				}
				_ = r.Close()
				objects++
			}
			if objects != step.objects {
				t.Errorf("%d objects, want %d", objects, step.objects)
			}
		})
	}
}
