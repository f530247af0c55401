package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// RabbitMQOptions are the settings of a node. The zero value is a node with RabbitMQ's
// defaults that takes at most 512 MB of memory.
type RabbitMQOptions struct {
	// Config are further lines of rabbitmq.conf, such as "max_message_size = 262144".
	Config []string
	// Plugins are the plugins to enable, such as "rabbitmq_management" (whose listener
	// must then be set in Config).
	Plugins []string
}

// A RabbitMQ is a real RabbitMQ node with a name server (epmd) of its own. Stop, Kill and
// Pause are about the node; the name server lives until Close.
type RabbitMQ struct {
	*Process
	addr string
	node string
	home rabbitHome
	env  []string
	epmd *Process
}

// A rabbitHome is an installed RabbitMQ.
type rabbitHome struct {
	bin string // the folder of server and tools
	// command runs one of its programs, which finds the node's folder dir at seen(dir).
	command func(ctx context.Context, dir, name string, args ...string) *exec.Cmd
	seen    func(dir string) string
}

// Addr is the node's host:port.
func (r *RabbitMQ) Addr() string { return r.addr }

// URL is the AMQP 0-9-1 address of the default virtual host, with the default user.
func (r *RabbitMQ) URL() string { return "amqp://guest:guest@" + r.addr + "/" }

// Ctl runs rabbitmqctl on the node and returns its output. Each call starts an Erlang
// virtual machine, which takes about a second.
func (r *RabbitMQ) Ctl(ctx context.Context, args ...string) (string, error) {
	cmd := r.home.command(ctx, r.dir, filepath.Join(r.home.bin, "rabbitmqctl"), append([]string{"-q", "-n", r.node}, args...)...)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("servers: rabbitmqctl %s: %w\n%s", args[0], err, out)
	}
	return string(out), nil
}

// Close stops the node and its name server for good and removes their folder.
func (r *RabbitMQ) Close() error { return errors.Join(r.Stop(), r.epmd.Stop(), r.Process.Close()) }

// StartRabbitMQ starts the installed RabbitMQ as a node with an empty data folder and waits
// until it has started up. See [Process.Start] for the context.
func StartRabbitMQ(ctx context.Context, o RabbitMQOptions) (*RabbitMQ, error) {
	// The scripts beside the server, not the wrappers in /usr/sbin, which change the user.
	server, err := find("/usr/lib/rabbitmq/bin/rabbitmq-server", "/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")
	if err != nil {
		return nil, fmt.Errorf("servers: RabbitMQ is missing, which make integration installs: %w", err)
	}
	return startRabbitMQ(ctx, rabbitHome{
		bin: filepath.Dir(server),
		command: func(ctx context.Context, _, name string, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, name, args...)
		},
		seen: func(dir string) string { return dir },
	}, o)
}

func startRabbitMQ(ctx context.Context, home rabbitHome, o RabbitMQOptions) (*RabbitMQ, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	dir, err := tempDir("rabbitmq")
	if err != nil {
		return nil, err
	}
	r, err := newRabbitMQ(ctx, dir, home, [3]int(ports), o)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return r, nil
}

func newRabbitMQ(ctx context.Context, dir string, home rabbitHome, ports [3]int, o RabbitMQOptions) (*RabbitMQ, error) {
	amqp, dist, names := ports[0], ports[1], ports[2]
	for _, sub := range []string{"mnesia", "log", "home"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, fmt.Errorf("servers: %w", err)
		}
	}
	files := map[string]string{
		"enabled_plugins": "[" + strings.Join(o.Plugins, ",") + "].\n",
		"rabbitmq.conf": strings.Join(append([]string{
			"listeners.tcp.default = " + loopback(amqp),
			"log.file = false",
			"log.console = true",
			"log.console.level = info",
			"vm_memory_high_watermark.absolute = 512MB",
			"disk_free_limit.absolute = 50MB",
		}, o.Config...), "\n") + "\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, fmt.Errorf("servers: %w", err)
		}
	}
	r := &RabbitMQ{
		addr: loopback(amqp),
		node: "envelope" + strconv.Itoa(amqp) + "@localhost",
		home: home,
		env:  rabbitEnv(home.seen(dir), amqp, dist, names),
	}
	r.env = append(r.env, "RABBITMQ_NODENAME="+r.node)

	// The node would start a name server that outlives it; this one is our child.
	r.epmd = newProcess("epmd", dir, "epmd running", func() *exec.Cmd {
		return exec.Command("epmd", "-d", "-address", "127.0.0.1", "-port", strconv.Itoa(names))
	})
	r.Process = newProcess("rabbitmq", dir, "Server startup complete", func() *exec.Cmd {
		cmd := home.command(context.Background(), dir, filepath.Join(home.bin, "rabbitmq-server"))
		cmd.Dir, cmd.Env = dir, r.env
		return cmd
	})
	if err := r.epmd.Start(ctx); err != nil {
		return nil, err
	}
	if err := r.Start(ctx); err != nil {
		return nil, errors.Join(err, r.epmd.Stop())
	}
	return r, nil
}

// rabbitEnv is the environment that keeps a node and its tools inside dir and away from any
// other node of the machine.
func rabbitEnv(dir string, amqp, dist, names int) []string {
	in := func(name string) string { return filepath.Join(dir, name) }
	return append(os.Environ(),
		"HOME="+in("home"), // the cookie that node and tools share
		"LANG=C.UTF-8",
		"RABBITMQ_LOG=-color",
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_NODE_PORT="+strconv.Itoa(amqp),
		"RABBITMQ_DIST_PORT="+strconv.Itoa(dist),
		"RABBITMQ_MNESIA_BASE="+in("mnesia"),
		"RABBITMQ_LOG_BASE="+in("log"),
		"RABBITMQ_PID_FILE="+in("pid"),
		"RABBITMQ_CONFIG_FILE="+in("rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE="+in("none.config"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+in("enabled_plugins"),
		"RABBITMQ_GENERATED_CONFIG_DIR="+in("schema"),
		"RABBITMQ_CONF_ENV_FILE="+in("none-env.conf"),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_EPMD_PORT="+strconv.Itoa(names),
		// Two schedulers, and distribution on the loopback interface only.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1} +S 2:2",
		// The script then becomes the node instead of its parent, so that signals reach it.
		"RUNNING_UNDER_SYSTEMD=true",
	)
}
