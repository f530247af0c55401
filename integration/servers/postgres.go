package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// PostgresOptions are the settings of a server. The zero value works.
type PostgresOptions struct {
	// Settings override or add to postgresql.conf, as "name=value".
	Settings []string
	// Env is added to the environment of the server, as "NAME=value".
	Env []string
}

// A Postgres is a real PostgreSQL with one superuser, probe, who needs no password. What was
// committed survives the end of the server, not that of the machine.
type Postgres struct {
	*Process
	port int
}

// URL is the address of the database postgres, for pgx and for Rust's sqlx.
func (p *Postgres) URL() string {
	return "postgres://probe@" + loopback(p.port) + "/postgres?sslmode=disable"
}

// Start is [Process.Start]. After a Kill the server's children live on for a moment, and a
// new one refuses to start beside them: it is tried again.
func (p *Postgres) Start(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		err := p.Process.Start(ctx)
		if err == nil || attempt == 50 || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Restart is Stop and Start.
func (p *Postgres) Restart(ctx context.Context) error {
	if err := p.Stop(); err != nil {
		return err
	}
	return p.Start(ctx)
}

// StartPostgres starts the installed PostgreSQL with an empty data folder and waits until it
// serves. See [Process.Start] for the context.
func StartPostgres(ctx context.Context, o PostgresOptions) (*Postgres, error) {
	folders, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(folders) == 0 {
		return nil, fmt.Errorf("servers: PostgreSQL is missing, which make integration installs: %w", errors.Join(err, os.ErrNotExist))
	}
	slices.SortFunc(folders, func(a, b string) int { return release(a) - release(b) })
	bin := folders[len(folders)-1]
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	dir, err := tempDir("postgres")
	if err != nil {
		return nil, err
	}
	p, err := newPostgres(ctx, dir, bin, ports[0], o)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

// release is the release of the PostgreSQL whose programs are in bin.
func release(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin))) // no number: the oldest
	return n
}

func newPostgres(ctx context.Context, dir, bin string, port int, o PostgresOptions) (*Postgres, error) {
	as, err := unprivileged(dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-A", "trust", "-U", "probe",
		"--no-sync", "-E", "UTF8", "--locale=C")
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("servers: initdb: %w\n%s", err, out)
	}
	args := []string{"-D", data}
	for _, setting := range append([]string{
		"port=" + strconv.Itoa(port),
		"listen_addresses=127.0.0.1",
		"unix_socket_directories=" + dir,
		"fsync=off",
		"shared_buffers=64MB",
		"max_connections=200",
	}, o.Settings...) {
		args = append(args, "-c", setting)
	}
	p := &Postgres{port: port}
	p.Process = newProcess("postgres", dir, "ready to accept connections", func() *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, "postgres"), args...)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
		cmd.Env = append(os.Environ(), o.Env...)
		return cmd
	})
	p.stop = syscall.SIGINT // SIGTERM would wait for the clients
	return p, p.Start(ctx)
}

// unprivileged gives dir to the user postgres and returns who that is. Where the tests do not
// run as root it does nothing and returns nil: they are unprivileged already. PostgreSQL
// refuses to run as root.
func unprivileged(dir string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("servers: user postgres: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("servers: user postgres: %w", err)
	}
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
