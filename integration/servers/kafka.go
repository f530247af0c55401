package servers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// KafkaVersion is the Apache Kafka release that [StartKafka] runs.
const KafkaVersion = "4.4.0"

// The broker and what lets it write a log, as Maven resolves them.
const kafkaPOM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>envelope</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>` + KafkaVersion + `</version></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.5</version></dependency>
</dependencies>
</project>
`

// InstallKafka downloads the broker's jars with Maven, once per version, and returns their
// folder. [StartKafka] calls it; calling it before keeps the download out of the tests' time.
func InstallKafka(ctx context.Context) (string, error) {
	return mavenJars(ctx, "kafka-"+KafkaVersion, kafkaPOM)
}

// KafkaOptions are the settings of a broker. The zero value is a broker whose topics are
// created by their first use, with one partition.
type KafkaOptions struct {
	// Properties override or add to server.properties, such as message.max.bytes.
	Properties map[string]string
}

// A Kafka is a real Apache Kafka: one process that is broker and controller (KRaft).
type Kafka struct {
	*Process
	addr string
}

// Addr is the broker's host:port.
func (k *Kafka) Addr() string { return k.addr }

// StartKafka starts a broker with an empty data folder and waits until it serves. It needs
// Java 17 or newer, and Maven for its first time. See [Process.Start] for the context.
func StartKafka(ctx context.Context, o KafkaOptions) (*Kafka, error) {
	if _, err := exec.LookPath("java"); err != nil {
		return nil, fmt.Errorf("servers: Kafka needs Java, which make integration installs: %w", err)
	}
	jars, err := InstallKafka(ctx)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	dir, err := tempDir("kafka")
	if err != nil {
		return nil, err
	}
	k, err := newKafka(ctx, dir, filepath.Join(jars, "lib", "*"), ports[0], ports[1], o)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return k, nil
}

func newKafka(ctx context.Context, dir, classes string, port, controller int, o KafkaOptions) (*Kafka, error) {
	properties := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(properties, kafkaProperties(dir, loopback(port), loopback(controller), o), 0o644); err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	logging := filepath.Join(dir, "log4j2.properties")
	if err := os.WriteFile(logging, []byte(kafkaLogging), 0o644); err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	java := func(heap string, args ...string) []string {
		// A small, single-threaded collector and the quick compiler: the machine is shared
		// with the tests, and a broker of a test lives for minutes.
		return append([]string{
			"-Xmx" + heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
			"-cp", classes, "-Dlog4j2.configurationFile=" + logging,
		}, args...)
	}
	// Any cluster id does: 16 bytes in unpadded base64.
	format := exec.CommandContext(ctx, "java", java("128m", "kafka.tools.StorageTool", "format",
		"--standalone", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", properties)...)
	if out, err := format.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("servers: format Kafka's data folder: %w\n%s", err, out)
	}
	k := &Kafka{addr: loopback(port)}
	k.Process = newProcess("kafka", dir, "Kafka Server started", func() *exec.Cmd {
		return exec.Command("java", java("512m", "kafka.Kafka", properties)...)
	})
	if err := k.Start(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

func kafkaProperties(dir, addr, controller string, o KafkaOptions) []byte {
	listeners := "PLAINTEXT://" + addr + ",CONTROLLER://" + controller
	p := map[string]string{
		"process.roles":                                    "broker,controller",
		"node.id":                                          "1",
		"listeners":                                        listeners,
		"advertised.listeners":                             listeners,
		"listener.security.protocol.map":                   "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name":                       "PLAINTEXT",
		"controller.listener.names":                        "CONTROLLER",
		"controller.quorum.bootstrap.servers":              controller,
		"log.dirs":                                         filepath.Join(dir, "data"),
		"num.partitions":                                   "1",
		"auto.create.topics.enable":                        "true",
		"offsets.topic.num.partitions":                     "1",
		"offsets.topic.replication.factor":                 "1",
		"transaction.state.log.num.partitions":             "1",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"group.initial.rebalance.delay.ms":                 "0",
		// After a crash the controller lets the broker in again only when its old session
		// has ended: 4 s instead of 9 s for every test that kills it.
		"broker.session.timeout.ms":    "4000",
		"broker.heartbeat.interval.ms": "500",
	}
	maps.Copy(p, o.Properties)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&text, "%s=%s\n", name, p[name])
	}
	return []byte(text.String())
}

// Warnings of everything, and the line that says the server is ready.
const kafkaLogging = `status = error
appender.c.type = Console
appender.c.name = C
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = %d{HH:mm:ss.SSS} %-5p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.c.ref = C
logger.k.name = kafka.server.KafkaRaftServer
logger.k.level = info
`

// find returns the first of the paths, which may be patterns, that is an executable file.
func find(paths ...string) (string, error) {
	for _, pattern := range paths {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, path := range matches {
			if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", &fs.PathError{Op: "find", Path: strings.Join(paths, " or "), Err: fs.ErrNotExist}
}
