package servers_test

import (
	"context"
	"errors"
	"testing"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/integration/servers"
)

type fakeServer struct {
	closed int
	err    error
}

func (s *fakeServer) Close() error       { s.closed++; return s.err }
func (s *fakeServer) LogTail(int) string { return "log" }

type testsFunc func() int

func (f testsFunc) Run() int { return f() }

func TestGroupExitCode(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name             string
		tests            int
		start, end       error
		want             int
		wantRun, wantEnd int
	}{
		{name: "all well", want: 0, wantRun: 1, wantEnd: 1},
		{name: "tests fail", tests: 1, want: 1, wantRun: 1, wantEnd: 1},
		{name: "tests cannot run", tests: 2, want: 2, wantRun: 1, wantEnd: 1},
		{name: "a server does not start: no test runs, the others stop", start: broken, want: 1, wantEnd: 1},
		{name: "a server does not stop", end: broken, want: 1, wantRun: 1, wantEnd: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			ran := 0
			good := &fakeServer{err: c.end}
			var g servers.Group
			g.Add(func(context.Context) (servers.Server, error) { return good, nil })
			g.Add(func(context.Context) (servers.Server, error) { return &fakeServer{}, c.start })
			code := g.Run(testsFunc(func() int { ran++; return c.tests }))
			if code != c.want || ran != c.wantRun || good.closed != c.wantEnd {
				t.Errorf("exit code %d, tests run %d times, server closed %d times; want %d, %d, %d",
					code, ran, good.closed, c.want, c.wantRun, c.wantEnd)
			}
		})
	}
}

func TestKfakeKeepsItsDataWhileStopped(t *testing.T) {
	k, err := servers.StartKfake(servers.KfakeOptions{Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, k)
	topic := suite.KafkaSmoke(t, k.Addr())
	if err := k.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := k.Cluster().PartitionInfos(topic); len(got) != 2 || got[0].HighWatermark+got[1].HighWatermark != 1 {
		t.Errorf("after a restart the topic has partitions %+v, want two with one record", got)
	}
	if err := k.Stop(); err != nil {
		t.Fatal(err)
	}
	if k.Cluster() != nil {
		t.Error("a stopped broker has a cluster")
	}
}
