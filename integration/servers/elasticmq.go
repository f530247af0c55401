package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ElasticMQVersion is the ElasticMQ release that [StartElasticMQ] runs.
const ElasticMQVersion = "1.7.1"

const elasticMQPOM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>envelope</groupId><artifactId>elasticmq</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
<dependency><groupId>org.elasticmq</groupId><artifactId>elasticmq-server_2.13</artifactId><version>` + ElasticMQVersion + `</version></dependency>
</dependencies>
</project>
`

// The limits are AWS's own: more than ten attributes, characters that XML does not have,
// empty values and a body over 1 MiB are refused.
const elasticMQConfig = `include classpath("application.conf")
node-address { protocol = http, host = "127.0.0.1", port = %[1]d, context-path = "" }
rest-sqs { enabled = true, bind-port = %[1]d, bind-hostname = "127.0.0.1", sqs-limits = strict }
rest-stats { enabled = false }
generate-node-address = false
queues { }
`

// InstallElasticMQ downloads the server's jars with Maven, once per version, and returns
// their folder. [StartElasticMQ] calls it; calling it before keeps the download out of the
// tests' time.
func InstallElasticMQ(ctx context.Context) (string, error) {
	return mavenJars(ctx, "elasticmq-"+ElasticMQVersion, elasticMQPOM)
}

// An ElasticMQ is a real SQS server with strict limits. It keeps queues and messages in
// memory: a stop loses them. It has no SNS.
type ElasticMQ struct {
	*Process
	url string
}

// URL is the endpoint for SQS clients.
func (e *ElasticMQ) URL() string { return e.url }

// StartElasticMQ starts a server without queues and waits until it serves. It needs Java 17
// or newer, and Maven for its first time. See [Process.Start] for the context.
func StartElasticMQ(ctx context.Context) (*ElasticMQ, error) {
	if _, err := exec.LookPath("java"); err != nil {
		return nil, fmt.Errorf("servers: ElasticMQ needs Java, which make integration installs: %w", err)
	}
	jars, err := InstallElasticMQ(ctx)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	dir, err := tempDir("elasticmq")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "elasticmq.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, elasticMQConfig, ports[0]), 0o644); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	e := &ElasticMQ{url: "http://" + loopback(ports[0])}
	e.Process = newProcess("elasticmq", dir, "=== ElasticMQ server ("+ElasticMQVersion+") started", func() *exec.Cmd {
		cmd := exec.Command("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
			"-Dconfig.file="+config, "-cp", filepath.Join(jars, "lib", "*"), "org.elasticmq.server.Main")
		cmd.Dir = dir
		return cmd
	})
	if err := e.Start(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return e, nil
}
