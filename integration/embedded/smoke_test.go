package embedded

import (
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

func TestKafkaSmoke(t *testing.T) { suite.KafkaSmoke(t, kafkaServer.Addr()) }
