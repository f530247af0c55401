package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// A MariaDB is a real MariaDB with the database test, whose user root needs no password.
type MariaDB struct {
	*Process
	port int
}

// DSN is the data source name of the database test for go-sql-driver/mysql, without
// parameters.
func (m *MariaDB) DSN() string { return "root@tcp(" + loopback(m.port) + ")/test" }

// StartMariaDB starts the installed MariaDB with an empty data folder and waits until it
// serves. options are further arguments, such as "--max-allowed-packet=1M". See
// [Process.Start] for the context.
func StartMariaDB(ctx context.Context, options ...string) (*MariaDB, error) {
	server, err := find("/usr/sbin/mariadbd", "/usr/bin/mariadbd")
	if err != nil {
		return nil, fmt.Errorf("servers: MariaDB is missing, which make integration installs: %w", err)
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	dir, err := tempDir("mariadb")
	if err != nil {
		return nil, err
	}
	m, err := newMariaDB(ctx, dir, server, ports[0], options)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return m, nil
}

func newMariaDB(ctx context.Context, dir, server string, port int, options []string) (*MariaDB, error) {
	data, first := filepath.Join(dir, "data"), filepath.Join(dir, "first.sql")
	user := "--user=" + strconv.Itoa(os.Getuid())
	install := exec.CommandContext(ctx, "mariadb-install-db", "--no-defaults", "--datadir="+data,
		"--auth-root-authentication-method=normal", "--skip-test-db", user)
	// A server removes temporary tables of others where it finds them, as it starts.
	install.Env = append(os.Environ(), "TMPDIR="+dir)
	if out, err := install.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("servers: mariadb-install-db: %w\n%s", err, out)
	}
	if err := os.WriteFile(first, []byte("CREATE DATABASE IF NOT EXISTS test;\n"), 0o644); err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	args := append([]string{
		"--no-defaults", user, "--datadir=" + data, "--tmpdir=" + dir, "--socket=" + filepath.Join(dir, "s.sock"),
		"--port=" + strconv.Itoa(port), "--bind-address=127.0.0.1", "--pid-file=" + filepath.Join(dir, "mariadbd.pid"),
		"--skip-log-bin", "--init-file=" + first, "--innodb-flush-log-at-trx-commit=2",
		"--innodb-buffer-pool-size=64M", "--character-set-server=utf8mb4",
	}, options...)
	m := &MariaDB{port: port}
	m.Process = newProcess("mariadb", dir, "ready for connections", func() *exec.Cmd {
		cmd := exec.Command(server, args...)
		cmd.Dir = dir
		return cmd
	})
	return m, m.Start(ctx)
}
