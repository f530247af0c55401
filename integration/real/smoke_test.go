package real

import (
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

func TestKafkaSmoke(t *testing.T)    { suite.KafkaSmoke(t, kafkaServer.Addr()) }
func TestRabbitMQSmoke(t *testing.T) { suite.RabbitMQSmoke(t, rabbitmqServer.URL()) }
