package rabbit

import (
	"fmt"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	amqp3 "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/transport/rabbitmq"
)

// BenchmarkPublish sets confirmed publishing by our publisher beside Watermill's with
// ConfirmDelivery: persistent messages of 1 KiB to a durable queue that nobody reads. An op
// is one message. Compare rows of the same run:
//
//	ours of 64 goroutines is at least as fast as stock of 64 goroutines with 64 channels,
//	ours of 64 goroutines, and ours in batches, at least three times as fast as stock one by one.
func BenchmarkPublish(b *testing.B) {
	queue := "BenchmarkPublish"
	channel := suite.AMQPChannel(b, server.URL())
	if _, err := channel.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		b.Fatal(err)
	}
	stock := func(b *testing.B, pool int) message.Publisher {
		b.Helper()
		c := amqp3.NewDurableQueueConfig(server.URL())
		c.Publish.ConfirmDelivery = true
		c.Publish.ChannelPoolSize = pool
		pub, err := amqp3.NewPublisher(c, watermill.NopLogger{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = pub.Close() })
		return pub
	}
	for _, row := range []struct {
		impl       string
		goroutines int
		batch      int
		pool       int // of the stock publisher
	}{
		{"stock", 1, 1, 1},
		{"ours", 1, 1, 0},
		{"ours", 1, 100, 0},
		{"stock", 64, 1, 64},
		{"ours", 64, 1, 0},
	} {
		b.Run(fmt.Sprintf("impl=%s/goroutines=%d/batch=%d", row.impl, row.goroutines, row.batch), func(b *testing.B) {
			var pub message.Publisher
			if row.impl == "stock" {
				pub = stock(b, row.pool)
			} else {
				pub = publisher(b, rabbitmq.PublisherConfig{Marshaler: amqp3.DefaultMarshaler{}})
			}
			if err := pub.Publish(queue, message.NewMessage("warm", nil)); err != nil {
				b.Fatal(err)
			}
			body := make([]byte, 1024)
			work := make(chan int, 1<<10)
			var all sync.WaitGroup
			b.ResetTimer()
			for range row.goroutines {
				all.Go(func() {
					for n := range work {
						batch := make([]*message.Message, n)
						for i := range batch {
							batch[i] = message.NewMessage("0190b3a4-0000-7000-8000-000000000001", body)
						}
						if err := pub.Publish(queue, batch...); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for left := b.N; left > 0; left -= row.batch {
				work <- min(row.batch, left)
			}
			close(work)
			all.Wait()
			b.StopTimer()
			if _, err := channel.QueuePurge(queue, false); err != nil {
				b.Fatal(err)
			}
		})
	}
}
