package docs_test

import (
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func capped(config kafka.PublisherConfig, log watermill.LoggerAdapter) error {
	var pub message.Publisher
	pub, err := kafka.NewPublisher(config, log)
	if err != nil {
		return err
	}
	caps := hookmw.HeaderCaps{}
	pub = caps.WrapPublisher(pub)
	return pub.Close()
}

func headerCaps(log *slog.Logger) error {
	caps := hookmw.HeaderCaps{
		Forward: envelope.ForwardOptions{Never: []string{"x-internal-token"}},
		For: func(sourceID string) envelope.ForwardOptions {
			if sourceID == "github" {
				return envelope.ForwardOptions{
					Mode:  envelope.ForwardAllowList,
					Allow: []string{"x-github-event", "x-github-delivery"},
				}
			}
			return envelope.ForwardOptions{MaxHeaders: 20}
		},
		Dropped: func(msg *message.Message, d envelope.Dropped) {
			log.Warn("headers dropped", "id", msg.UUID, "count", d.Count, "bytes", d.Bytes)
		},
	}
	if err := caps.Validate(); err != nil {
		return err
	}
	return nil
}
