package middleware_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler/kafkawire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

// A printer is a publisher that prints one entry of metadata.
type printer string

func (p printer) Publish(_ string, messages ...*message.Message) error {
	for _, msg := range messages {
		fmt.Println(msg.Metadata[string(p)])
	}
	return nil
}

func (printer) Close() error { return nil }

// Credentials stay behind, and what a cap drops is told.
func ExampleHeaderCaps() {
	caps := hookmw.HeaderCaps{
		Forward: envelope.ForwardOptions{Never: []string{"x-internal-token"}, MaxHeaders: 2},
		Dropped: func(_ *message.Message, d envelope.Dropped) { fmt.Println("dropped:", d.Count) },
	}
	pub := caps.WrapPublisher(printer(envelope.MetadataHeaders))

	hook := envelope.Envelope{SourceID: "github", Headers: []envelope.Header{
		{Name: "Authorization", Value: "Bearer secret"},
		{Name: "X-Internal-Token", Value: "secret"},
		{Name: "X-GitHub-Event", Value: "push"},
		{Name: "Accept", Value: "*/*"},
		{Name: "X-Request-Id", Value: "7"},
	}}
	if err := pub.Publish("hooks", hook.Message()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"x-github-event":"push","accept":"*/*"}
	// dropped: 1
}

// An error that quotes a whole response does not keep its message out of the poison topic.
func ExampleDiagnostics() {
	dead, err := hookmw.Diagnostics{Max: 40}.WrapPublisher(printer(wmmw.ReasonForPoisonedKey), kafkawire.Marshaler{Source: "orders"})
	if err != nil {
		fmt.Println(err)
		return
	}
	poison, err := wmmw.PoisonQueueWithFilter(dead, "orders.poison", hookmw.ShouldPoison)
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := poison(func(*message.Message) ([]*message.Message, error) {
		return nil, errors.New("invoice service says " + strings.Repeat("<html>", 10_000))
	})
	if _, err := handler(message.NewMessage("1", nil)); err != nil {
		fmt.Println(err)
	}
	// Output: invoice service says <html...[truncated]
}
