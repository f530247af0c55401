package rabbitmq_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

func TestURIRedacted(t *testing.T) {
	const hidden = "<redacted AMQP URI>"
	for _, tt := range []struct {
		rule string
		uri  rabbitmq.URI
		want string
	}{
		{"user and password are stars", "amqp://user:secret@broker:5672/shop", "amqp://***@broker:5672/shop"},
		{"a user alone too", "amqp://secret@broker", "amqp://***@broker"},
		{"and nobody", "amqp://broker:5672", "amqp://***@broker:5672"},
		{"with TLS", "amqps://user:secret@broker/", "amqps://***@broker"},
		{"IPv6", "amqp://user:secret@[::1]:5672", "amqp://***@[::1]:5672"},
		{"a virtual host keeps its escapes", "amqp://user:secret@broker/a%2Fb", "amqp://***@broker/a%2Fb"},
		{"the client's default host", "amqp://user:secret@", "amqp://***@localhost"},
		{"parameters are dropped", "amqp://user:secret@broker/?keyfile=/secret", "amqp://***@broker"},
		{"so is a fragment", "amqp://user:secret@broker/v#secret", "amqp://***@broker/v"},
		{"an escaped password", "amqp://user:se%40cret@broker", "amqp://***@broker"},
		{"a password with an @: where does it end?", "amqp://user:pa@secret@broker", hidden},
		{"a password with a slash reads as a host and a path", "amqp://user/secret@broker", hidden},
		{"with a question mark, as parameters", "amqp://user:12?secret@broker", hidden},
		{"with a hash, as a fragment", "amqp://user:12#secret@broker", hidden},
		{"a password that is no port", "amqp://user:secret", hidden},
		{"no slashes", "amqp:user:secret@broker", hidden},
		{"another scheme", "http://user:secret@broker", hidden},
		{"a control character", "amqp://user:sec\x7fret@broker", hidden},
		{"a bad escape", "amqp://user:secret%@broker", hidden},
		{"nothing", "", hidden},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			if got := tt.uri.Redacted(); got != tt.want {
				t.Errorf("%q is shown as %q, want %q", string(tt.uri), got, tt.want)
			}
		})
	}
}

// However a configuration is printed, its credentials are not.
func TestURIPrints(t *testing.T) {
	const uri = "amqp://user:secret@broker/shop"
	c := rabbitmq.PublisherConfig{URI: uri, Exchange: "shop"}
	var printed []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T %v"} {
		for _, value := range []any{c, &c, c.URI, &c.URI, []rabbitmq.URI{uri}, map[string]rabbitmq.URI{"a": uri}} {
			printed = append(printed, fmt.Sprintf(verb, value))
		}
	}
	text, err := json.Marshal(map[string]any{"uri": c.URI})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "config", c, "uri", c.URI)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "uri", c.URI)
	printed = append(printed, string(text), log.String())
	for _, s := range printed {
		if strings.Contains(s, "secret") || strings.Contains(s, "user:") || strings.Contains(s, "736563726574") {
			t.Errorf("printed: %s", s)
		}
	}
	if !strings.Contains(printed[0], "amqp://***@broker/shop") {
		t.Errorf("the broker is not named: %s", printed[0])
	}
	var read struct{ URI rabbitmq.URI }
	if err := json.Unmarshal([]byte(`{"URI":"amqp://user:secret@broker"}`), &read); err != nil || string(read.URI) != "amqp://user:secret@broker" {
		t.Errorf("read from JSON: %v", err)
	}
}

// A publisher and a subscriber hold the URI where nothing prints it, and the errors of a URI
// that is wrong do not quote it.
func TestURIDoesNotLeak(t *testing.T) {
	pub, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{URI: "amqp://user:secret@broker", Marshaler: plain{}})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := rabbitmq.NewSubscriber(rabbitmq.SubscriberConfig{URI: "amqp://user:secret@broker", Unmarshaler: plain{}})
	if err != nil {
		t.Fatal(err)
	}
	printed := []string{fmt.Sprintf("%+v %+v", pub, sub), fmt.Sprintf("%#v %#v", pub, sub)}
	for _, uri := range []rabbitmq.URI{
		"amqp://user:secret", "amqp://user:secret%@broker", "amqp://user:secret@broker:port", "secret", "secret://broker",
		"amqp://user:sec ret@broker", "amqp://user:secret@broker?heartbeat=secret", "amqp://user:secret@broker:99999999999",
	} {
		_, err := rabbitmq.NewPublisher(rabbitmq.PublisherConfig{URI: uri, Marshaler: plain{}})
		if err == nil {
			t.Errorf("%q is valid", string(uri))
			continue
		}
		printed = append(printed, err.Error(), fmt.Sprintf("%#v", err))
	}
	for _, s := range printed {
		if strings.Contains(s, "secret") || strings.Contains(s, "sec ret") {
			t.Errorf("printed: %s", s)
		}
	}
}

// Whatever user and password are made of, escaped or not, the password is not shown.
func FuzzURIRedacted(f *testing.F) {
	for _, s := range []string{"secret", "pa@secret", "/secret", "12?secret", "12#secret", "sec\x7fret", "secret%", "se%40cret", "12/secret", "[::1]", "\\secret"} {
		f.Add("user", s)
		f.Add(s, "secret")
		f.Add("", s)
	}
	f.Fuzz(func(t *testing.T, user, password string) {
		const rest = "@broker:5672/shop"
		shown := rabbitmq.URI("amqp://" + user + ":" + password + rest).Redacted()
		if shown == "<redacted AMQP URI>" || shown == "amqp://***"+rest {
			return
		}
		t.Errorf("%q:%q is shown in %q", user, password, shown)
	})
}
