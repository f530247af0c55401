package real

import (
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

func TestRabbitMQSmoke(t *testing.T) { suite.RabbitMQSmoke(t, rabbitmqServer.URL()) }
