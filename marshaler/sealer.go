package marshaler

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

// A Sealer knows how a publisher's messages will look on its wire, before they are sent:
// every Marshaler is one, and so is a [Publisher]. Middlewares that choose between a body
// inline and a claim ask it.
//
// Both methods may be called by several goroutines at once.
type Sealer interface {
	// Prepare returns msg as it would be sealed for topic: msg itself when nothing needs to
	// change, else a copy that keeps the context. It is idempotent. Its only changes to msg
	// are a minted UUID where msg had none and an empty Metadata where it was nil. Its
	// errors are permanent.
	//
	// A malformed message that the transport cannot carry is prepared as the body of an
	// envelope, so ask whether a message is malformed after preparing it.
	Prepare(topic string, msg *message.Message) (*message.Message, error)

	// Size returns what the transport counts, in bytes, for a message that Prepare
	// returned: with its body inline, and as a claim that is stored under tenant (of use
	// where the message has no tenant). Both are equal where the message is a claim
	// already. limit is the most that the transport takes, inclusive. Size neither seals
	// nor digests nor allocates.
	Size(topic string, prepared *message.Message, tenant string) (inline, claim, limit int64)
}

// A Fitter is a [Sealer] that says of most messages at once that they fit, for those who need
// no more. All of ours are Fitters.
type Fitter interface {
	Sealer

	// Fits reports whether the transport takes a message that Prepare returned with its body
	// inline. It costs much less than Size, since it counts no more than an upper bound: true
	// is certain, false may be said of a message that fits. It does not allocate.
	Fits(topic string, prepared *message.Message) bool
}

// An Observer counts what is opened. Its methods are called once for each delivery, by
// several goroutines at once, and must not block. topic is the transport's name of where the
// message lay (Kafka: the topic; RabbitMQ: the exchange, or the queue where that is empty).
type Observer interface {
	// Malformed is called for each message that could not be read.
	Malformed(topic string, code envelope.Code)
	// Fallback is called for each message that a Fallback or PassThrough read instead: when
	// it stands still for longer than messages are kept, the option can go.
	Fallback(topic string)
}
