package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/watermill-envelope/envelope/integration/internal/cache"
)

// rabbitMQ4Suite is the Debian release whose RabbitMQ [StartRabbitMQ4] runs: 4.0.
const rabbitMQ4Suite = "trixie"

// enterRabbitMQ4 runs a program inside a Debian release: $1 is its root, $2 the node's
// folder. What it mounts is seen by the program alone, and is gone with it.
const enterRabbitMQ4 = `set -e
root=$1; dir=$2; shift 2
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$dir" "$root/srv/node"
exec chroot "$root" "$@"`

// InstallRabbitMQ4 installs RabbitMQ 4 with what it needs of its Debian release into a
// folder, once, and returns the folder. It needs root and debootstrap, and about a minute.
func InstallRabbitMQ4(ctx context.Context) (string, error) {
	return cache.Dir(ctx, "rabbitmq-"+rabbitMQ4Suite, func(ctx context.Context, dir string) error {
		out, err := exec.CommandContext(ctx, "debootstrap", "--variant=minbase", "--include=rabbitmq-server", rabbitMQ4Suite, dir).CombinedOutput()
		if err != nil {
			return fmt.Errorf("debootstrap %s: %w\n%s", rabbitMQ4Suite, err, out)
		}
		return os.Mkdir(filepath.Join(dir, "srv", "node"), 0o755)
	})
}

// StartRabbitMQ4 is [StartRabbitMQ] with RabbitMQ 4, which counts deaths in its own way: it
// takes no x-death from clients, and quorum queues count deliveries.
func StartRabbitMQ4(ctx context.Context, o RabbitMQOptions) (*RabbitMQ, error) {
	root, err := InstallRabbitMQ4(ctx)
	if err != nil {
		return nil, err
	}
	return startRabbitMQ(ctx, rabbitHome{
		bin: "/usr/lib/rabbitmq/bin",
		command: func(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
			inside := []string{"--mount", "--propagation", "private", "--", "/bin/sh", "-c", enterRabbitMQ4, "sh", root, dir, name}
			return exec.CommandContext(ctx, "unshare", append(inside, args...)...)
		},
		seen: func(string) string { return "/srv/node" },
	}, o)
}
