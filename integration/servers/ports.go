package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Servers listen below the range that the kernel takes ports of outgoing connections from
// (32768 and up on Linux). Inside it a client that dials a stopped server again and again
// can be given the server's own port, connects to itself, and the server cannot come back.
const firstPort, lastPort = 20000, 32000

// freePorts returns n different TCP ports that nothing on 127.0.0.1 listens on.
func freePorts(n int) ([]int, error) {
	var ports []int
	var open []net.Listener // held until all are found, so that they differ
	defer func() {
		for _, l := range open {
			l.Close()
		}
	}()
	var last error
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		open = append(open, l)
		ports = append(ports, port)
		if len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("servers: no %d free ports of 127.0.0.1 in %d to %d", n, firstPort, lastPort), last)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
