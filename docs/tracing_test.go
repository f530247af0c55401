package docs_test

import (
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	wmmw "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func trace(router *message.Router, pub message.Publisher, sub message.Subscriber, poison message.HandlerMiddleware, ship message.HandlerFunc) {
	tracing := hookmw.Trace{System: "kafka"}
	pub = tracing.WrapPublisher(pub)
	router.AddMiddleware(
		poison,
		wmmw.Retry{MaxRetries: 5, InitialInterval: time.Second, ShouldRetry: hookmw.ShouldRetry}.Middleware,
		wmmw.Recoverer,
		tracing.Middleware,
		hookmw.Malformed{}.Middleware,
	)
	router.AddHandler("ship", "orders", sub, "shipped", pub, ship)
}

func traceAsOne(pub message.Publisher) message.Publisher {
	tracing := hookmw.Trace{System: "kafka", Parent: true}
	return tracing.WrapPublisher(pub)
}
