package rabbit

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/bus"
	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// No error and no line of the log shows a user or a password, whatever fails.
func TestCredentialsDoNotLeak(t *testing.T) {
	t.Parallel() // the broker takes its time to refuse a login
	ctx := suite.Context(t)
	if _, err := server.Ctl(ctx, "add_user", "visible-user", "visible-password"); err != nil {
		t.Fatal(err)
	}
	const rights = "^$" // none
	if _, err := server.Ctl(ctx, "set_permissions", "visible-user", rights, rights, rights); err != nil {
		t.Fatal(err)
	}
	q := queue(t)
	uri := func(user, password, rest string) rabbitmq.URI {
		return rabbitmq.URI("amqp://" + user + ":" + password + "@" + server.Addr() + rest)
	}
	right := uri("visible-user", "visible-password", "/")
	var log suite.LogBook
	var errs []error
	for _, tt := range []struct {
		name string
		err  func() error
	}{
		{"a wrong password", func() error {
			return publisher(t, rabbitmq.PublisherConfig{URI: uri("visible-user", "visible", "/"), Logger: log.Logger()}).Connect(ctx)
		}},
		{"no such virtual host", func() error {
			return publisher(t, rabbitmq.PublisherConfig{URI: right + "none", Logger: log.Logger()}).Connect(ctx)
		}},
		{"no right to publish", func() error {
			return publisher(t, rabbitmq.PublisherConfig{URI: right, Exchange: "amq.direct", Logger: log.Logger()}).Publish("key", messages(1)...)
		}},
		{"no right to declare", func() error {
			_, err := subscriber(t, rabbitmq.SubscriberConfig{URI: right, Logger: log.Logger()}).Subscribe(ctx, q)
			return err
		}},
		{"no right to make a topology", func() error {
			return rabbitmq.EnsureTopology(ctx, right, rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: q + ".other"}}})
		}},
	} {
		err := tt.err()
		if err == nil {
			t.Errorf("%s: no error", tt.name)
			continue
		}
		if envelope.IsPermanent(err) {
			t.Errorf("%s: no message is at fault, and the error is permanent: %v", tt.name, err)
		}
		errs = append(errs, err)
	}
	printed := log.String()
	for _, err := range errs {
		for ; err != nil; err = errors.Unwrap(err) {
			printed += fmt.Sprintf("%v %+v %#v\n", err, err, err)
			if broker, ok := errors.AsType[*amqp.Error](err); ok {
				printed += fmt.Sprintf("%#v", broker)
			}
		}
	}
	if strings.Contains(printed, "visible") {
		t.Errorf("printed:\n%s", printed)
	}
	if !errors.Is(errs[0], bus.ErrConnection) || !strings.Contains(errs[0].Error(), "amqp://***@"+server.Addr()) || !strings.Contains(errs[0].Error(), "password") {
		t.Errorf("a wrong password: %v", errs[0])
	}
	if !strings.Contains(log.String(), "cannot connect") {
		t.Errorf("the log says nothing:\n%s", log.String())
	}
}
