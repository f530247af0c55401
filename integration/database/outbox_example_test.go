package database

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

// The example program loses nothing and bills nothing twice on servers either, when its process
// is killed.
func TestOrdersExample(t *testing.T) {
	for name, dsn := range map[string]string{"PostgreSQL": postgresServer.URL(), "MariaDB": mariadbServer.DSN()} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(suite.Context(t), "go", "run", "./orders", "-dsn", dsn)
			cmd.Dir = "../../examples"
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range []string{
				"the process is killed",
				"an event came again, and the inbox kept it away",
				"12 orders were placed, 12 are there; 12 invoices for 12 of them; 0 events are dead letters",
			} {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
}
