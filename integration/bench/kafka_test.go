package bench

import (
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/middleware"
)

// runs is how often each way is measured, in turn with the others.
const runs = 9

// BenchmarkKafkaHop is a whole hop of a message of 1 KiB over Apache Kafka (one partition, all
// acknowledgements, 16 publishers): bare is Watermill's marshaler and no middleware, chain is
// our marshaler and the whole chain on both sides, without an SDK. To reach: chain takes at
// most 1.10 times what bare takes.
func BenchmarkKafkaHop(b *testing.B) {
	chain, err := middleware.NewChain(middleware.ChainConfig{})
	if err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 1024)
	if _, err := rand.Read(body); err != nil {
		b.Fatal(err)
	}
	plain := func(id string) *message.Message {
		msg := message.NewMessage(id, body)
		msg.Metadata.Set("correlation_id", "c-1")
		msg.Metadata.Set("event", "order.placed")
		return msg
	}
	ways := []struct {
		name string
		hop  hop
	}{
		{"bare", hop{broker: suite.Kafka(kafkaServer.Addr(), suite.KafkaOptions{Marshaler: kafka.DefaultMarshaler{}}), message: plain}},
		{"chain", hop{broker: suite.Kafka(kafkaServer.Addr(), suite.KafkaOptions{}), chain: chain, message: plain}},
	}
	for run := range runs {
		for i := range ways {
			// Who goes first is who goes on a colder machine.
			w := ways[(run+i)%len(ways)]
			b.Run(fmt.Sprintf("run=%d/way=%s", run, w.name), func(b *testing.B) {
				w.hop.run(b, fmt.Sprintf("hop-%s-%d-%d", w.name, run, b.N))
			})
		}
	}
}
