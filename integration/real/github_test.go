package real

import (
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

func TestKafkaGitHubBodies(t *testing.T)    { suite.KafkaGitHubBodies(t, kafkaServer.Addr()) }
func TestRabbitMQGitHubBodies(t *testing.T) { suite.RabbitMQGitHubBodies(t, rabbitmqServer.URL()) }
