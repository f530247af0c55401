package amqpwire

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

const contentType = "application/json"

// fieldOverhead is what a long string in the header table takes beside name and value: the
// length of the name, the type, and the length of the value.
const fieldOverhead = 1 + 1 + 4

// propertyBytes is what a content header takes beside its header fields, as amqp091-go
// writes it.
func propertyBytes(msg *message.Message) int64 {
	if msg == nil {
		return 0
	}
	const (
		start        = 2 + 2 + 8 + 2 // class, weight, body size, flags
		table        = 4             // its length
		deliveryMode = 1
		timestamp    = 8
	)
	size := start + table + deliveryMode
	if id := messageID(msg.UUID); id != "" {
		size += 1 + len(id)
	}
	if !envelope.IsMalformed(msg) {
		size += 1 + len(contentType) + timestamp
	}
	return int64(size)
}

// timestamp is ReceivedAt in seconds, 1970 where it is before.
func timestamp(prepared *message.Message) time.Time {
	text := prepared.Metadata[envelope.MetadataReceivedAt]
	if text == "" {
		return time.Now()
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 {
		ms = 0
	}
	return time.Unix(ms/1000, 0)
}

// native reports whether this name may be a header: it has room, and is none that RabbitMQ
// routes by (as text these close the channel) or writes itself.
func native(name, _ string) bool {
	return len(name) <= maxShortString && utf8.ValidString(name) &&
		name != "CC" && name != "BCC" && !brokerOwned(name)
}

// brokerOwned reports whether RabbitMQ writes this header into what it delivers: facts about
// one stored copy. A copy that is published again must not bring them along as headers, for
// the broker would leave x-first-death-queue as it is when that copy dies.
func brokerOwned(name string) bool {
	switch name {
	case "x-death", "x-delivery-count", "x-acquired-count", "x-stream-offset":
		return true
	}
	return strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}
