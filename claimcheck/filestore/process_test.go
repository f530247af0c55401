package filestore_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/filestore"
)

// The tests of several processes run this test binary again, as a process that does one of
// these with the rest of its arguments.
var processes = map[string]func(args []string) error{
	"put-for-ever": putForEver,
	"put-each":     putEach,
	"crash":        crash,
}

const processVariable = "FILESTORE_TEST_PROCESS"

func TestMain(m *testing.M) {
	if f := processes[os.Getenv(processVariable)]; f != nil {
		if err := f(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// start starts a process, and returns it with its output.
func start(t *testing.T, name string, args ...string) (*exec.Cmd, io.ReadCloser) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), processVariable+"="+name)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, out
}

// bodyOf returns what the tests store under a key: it can be told whether it is whole.
func bodyOf(key, process string) []byte {
	line := []byte(key + " " + process + "\n")
	return bytes.Repeat(line, 1+int(key[len(key)-4])*100) // 400 KiB to 900 KiB
}

// putForEver puts one object after the other and says so of each when it is stored.
func putForEver(args []string) error {
	s, err := filestore.New(args[0])
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		ref, err := claimcheck.NewPackRef("t"+strconv.Itoa(i%5), time.Now().AddDate(0, 0, -i%7))
		if err != nil {
			return err
		}
		if err := s.Put(ctx, ref.Key(), section(bodyOf(ref.Key(), ""))); err != nil {
			return err
		}
		fmt.Println(ref.Key())
	}
}

// TestKill kills processes that write, at any moment. What they said was stored is, what can
// be seen is whole, and what is left is swept.
func TestKill(t *testing.T) {
	s, dir := newStore(t)
	stored := make(map[string]bool)
	const rounds = 8
	for round := range rounds {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for writer := range 2 {
			cmd, out := start(t, "put-for-ever", dir)
			wg.Go(func() {
				lines := bufio.NewScanner(out)
				for n := 0; lines.Scan(); n++ {
					mu.Lock()
					stored[lines.Text()] = true
					mu.Unlock()
					if n == 1+round+writer {
						if err := cmd.Process.Kill(); err != nil {
							t.Error(err)
						}
						// What it said until then is read to the end.
					}
				}
				var exit *exec.ExitError
				if err := cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
					t.Errorf("a writer was not killed: %v", err)
				}
			})
		}
		wg.Wait()
	}
	seen := keys(t, s)
	for _, key := range seen {
		got, err := contents(s, key)
		if err != nil || !bytes.Equal(got, bodyOf(key, "")) {
			t.Errorf("%q has %d bytes, want %d: %v", key, len(got), len(bodyOf(key, "")), err)
		}
		delete(stored, key)
	}
	for key := range stored {
		t.Errorf("%q was stored, and is not there", key)
	}
	if len(seen) < rounds*2 {
		t.Errorf("only %d objects in %d rounds", len(seen), rounds)
	}
	left := len(files(t, dir))
	if n, err := s.DeleteLeftovers(ctx, time.Now().Add(time.Hour)); n != left || err != nil {
		t.Errorf("DeleteLeftovers removed %d of %d: %v", n, left, err)
	}
	if got := keys(t, s); len(got) != len(seen) {
		t.Errorf("%d objects of %d are left by DeleteLeftovers", len(got), len(seen))
	}
	t.Logf("%d objects, %d leftovers of %d processes", len(seen), left, rounds*2)
}

// putEach puts an object of its own under each key of its input, and says which it could.
func putEach(args []string) error {
	s, err := filestore.New(args[0])
	if err != nil {
		return err
	}
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		key := lines.Text()
		err := s.Put(ctx, key, section(bodyOf(key, args[1])))
		switch {
		case err == nil:
			fmt.Println(key)
		case !errors.Is(err, claimcheck.ErrExists):
			return err
		}
	}
	return lines.Err()
}

// TestProcessesPutEqual: of several processes that put the same keys exactly one succeeds with
// each.
func TestProcessesPutEqual(t *testing.T) {
	s, dir := newStore(t)
	const processes = 3
	var all []string
	for i := range 60 {
		all = append(all, newKey(t, "t"+strconv.Itoa(i%3), time.Now().AddDate(0, 0, -i%5)))
	}
	input := strings.Join(all, "\n") + "\n"
	winners := make(map[string][]string)
	var mu sync.Mutex
	var ready, wg sync.WaitGroup
	ready.Add(processes)
	for p := range processes {
		name := "process-" + strconv.Itoa(p)
		cmd := exec.Command(os.Args[0], dir, name)
		cmd.Env = append(os.Environ(), processVariable+"=put-each")
		cmd.Stderr = os.Stderr
		in, inErr := cmd.StdinPipe()
		out, outErr := cmd.StdoutPipe()
		if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			lines := bufio.NewScanner(out)
			if !lines.Scan() || lines.Text() != "ready" {
				t.Errorf("a process did not start")
			}
			ready.Done()
			ready.Wait()
			if _, err := io.WriteString(in, input); err != nil {
				t.Error(err)
			}
			in.Close()
			for lines.Scan() {
				mu.Lock()
				winners[lines.Text()] = append(winners[lines.Text()], name)
				mu.Unlock()
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	won := make(map[string]int)
	for _, key := range all {
		if len(winners[key]) != 1 {
			t.Errorf("%d processes could put %q: %q", len(winners[key]), key, winners[key])
			continue
		}
		won[winners[key][0]]++
		if got, err := contents(s, key); err != nil || !bytes.Equal(got, bodyOf(key, winners[key][0])) {
			t.Errorf("%q is not what the process had that could put it: %d bytes, %v", key, len(got), err)
		}
	}
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("left %q", got)
	}
	t.Logf("won: %v", won)
}
