package main

import (
	"net/http"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/webhook"
)

const tenant = "acme"

// receivers returns the handler of all sources: a signed request to /<source> becomes an
// envelope on Kafka.
func receivers(c config, pub message.Publisher) (http.Handler, error) {
	if c.accepting != nil {
		pub = noted{pub, c.accepting}
	}
	mux := http.NewServeMux()
	for _, s := range sources {
		rcv, err := webhook.NewReceiver(webhook.ReceiverConfig{
			Publisher: pub,
			Topic:     c.topic,
			Request:   s.options(c.secrets(s)),
			Logger:    c.log,
		})
		if err != nil {
			return nil, err
		}
		mux.Handle("/"+s.name, rcv)
	}
	return mux, nil
}

// noted tells of each hook that is published.
type noted struct {
	message.Publisher
	accepting func(msg *message.Message, publish func() error) error
}

func (p noted) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		if err := p.accepting(msg, func() error { return p.Publisher.Publish(topic, msg) }); err != nil {
			return err
		}
	}
	return nil
}
