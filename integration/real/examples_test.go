package real

import (
	"testing"

	"github.com/watermill-envelope/envelope/internal/exampletest"
)

// The example programs run against real servers as they do against embedded ones.
func TestExamples(t *testing.T) {
	t.Run("rabbitmq", func(t *testing.T) {
		exampletest.RunPackage(t, "../../examples/rabbitmq", "-amqp", rabbitmqServer.URL())
	})
	t.Run("kafka", func(t *testing.T) {
		exampletest.RunPackage(t, "../../examples/kafka", "-brokers", kafkaServer.Addr())
	})
}
