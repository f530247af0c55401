package redispubsub_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server speaks as much of Redis' protocol as channels take, and does what a test wants.
type server struct {
	listener net.Listener

	mu      sync.Mutex
	conns   map[net.Conn]string // the channel that it subscribes to
	refuse  string              // the answer to SUBSCRIBE
	answer  string              // the answer to PUBLISH; "": the number of subscribers
	silent  bool                // no answers
	got     []string            // what was published
	asked   int                 // how often somebody wanted to subscribe
	serving sync.WaitGroup
}

// none is no answer to SUBSCRIBE or PUBLISH.
const none = "none"

func newServer(t testing.TB) *server {
	t.Helper()
	s, err := startServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

func startServer() (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{listener: l, conns: map[net.Conn]string{}}
	s.serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[c] = ""
			s.mu.Unlock()
			s.serving.Go(func() { s.serve(c) })
		}
	})
	return s, nil
}

func (s *server) addr() string { return s.listener.Addr().String() }

func (s *server) stop() {
	s.listener.Close()
	s.disconnect()
	s.serving.Wait()
}

func (s *server) client(t testing.TB) *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: s.addr(), Protocol: 2, DisableIdentity: true, MaxRetries: -1, ReadTimeout: 5 * time.Second,
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// set changes what the server does.
func (s *server) set(change func(*server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// published is what was published so far.
func (s *server) published() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.got...)
}

// disconnect closes every connection.
func (s *server) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
		delete(s.conns, c)
	}
}

// send brings messages to the subscribers of a channel, and reports how many there were.
func (s *server) send(channel string, payloads ...string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for c, subscribed := range s.conns {
		if subscribed == channel {
			n++
			for _, p := range payloads {
				io.WriteString(c, "*3\r\n"+bulk("message")+bulk(channel)+bulk(p))
			}
		}
	}
	return n
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func (s *server) serve(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	r := bufio.NewReader(c)
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		s.mu.Lock()
		reply := s.reply(c, args)
		silent := s.silent
		s.mu.Unlock()
		if !silent {
			io.WriteString(c, reply)
		}
		if args[0] == "publish" { // as it comes to those who subscribed before
			s.send(args[1], args[2])
		}
	}
}

func (s *server) reply(c net.Conn, args []string) string {
	switch args[0] {
	case "subscribe":
		s.asked++
		switch s.refuse {
		case "":
		case none:
			return ""
		default:
			return s.refuse
		}
		if !s.silent {
			s.conns[c] = args[1]
		}
		return "*3\r\n" + bulk("subscribe") + bulk(args[1]) + ":1\r\n"
	case "publish":
		s.got = append(s.got, args[1]+":"+args[2])
		switch s.answer {
		case "":
		case none:
			return ""
		default:
			return s.answer
		}
		n := 0
		for _, channel := range s.conns {
			if channel == args[1] {
				n++
			}
		}
		return fmt.Sprintf(":%d\r\n", n)
	case "ping":
		return "*2\r\n" + bulk("pong") + bulk("")
	default:
		return "-ERR unknown command\r\n"
	}
}

// readCommand reads an array of bulk strings, the first of them in lower case.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r, '*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		n, err := readLength(r, '$')
		if err != nil {
			return nil, err
		}
		arg := make([]byte, n+2)
		if _, err := io.ReadFull(r, arg); err != nil {
			return nil, err
		}
		args[i] = string(arg[:n])
	}
	args[0] = strings.ToLower(args[0])
	return args, nil
}

func readLength(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("%q, want %c", line, kind)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// without is the same connections, none of which subscribes.
func without(conns map[net.Conn]string) map[net.Conn]string {
	none := make(map[net.Conn]string, len(conns))
	for c := range conns {
		none[c] = ""
	}
	return none
}
