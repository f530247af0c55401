package hexeract

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

// The example program tells the same story over RabbitMQ as it does in one process.
func TestExampleOverRabbitMQ(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(suite.Context(t), "go", "run", "./orders-bus", "-amqp", rabbitmq3.URL())
	cmd.Dir = "../../examples"
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"billing  A-2 fails: the card's bank does not answer",
		"billing  A-2 of acme: 500 cents, attempt 2",
		"mail     invoice I-1 for A-1, in the chain ",
		"mail     invoice I-2 for A-2, in the chain ",
		": orders.cancelled",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
