// Demo shows the whole path of a webhook: an HTTP receiver publishes it to Kafka, a router
// with an ordinary Watermill handler consumes it and republishes it to RabbitMQ, a second
// group of consumers gets it as well, and clients that are not Watermill read what stands on
// both brokers. A body that is too large for a message lies in a store meanwhile.
//
// Without flags both brokers run inside the process, bodies are stored in a temporary folder,
// the requests of the requests directory are sent, and the program ends by itself: with status
// 1 when anything is not the same at both ends. With -kafka, -amqp and -s3 it does the same on
// real servers, under topics of its own that it deletes, as it deletes the objects. With
// -listen it takes real traffic until it is interrupted. With -transport the handler publishes to
// another transport than RabbitMQ, which runs inside the process.
//
//	go run ./demo
//	go run ./demo -kafka localhost:9092 -amqp amqp://guest:guest@localhost:5672/ -listen :8080
//	go run ./demo -s3 http://localhost:9000/claims
//	go run ./demo -transport nats
//	go run ./demo -curl
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/metrics"
)

func main() { os.Exit(command(os.Args[1:], handle, os.Stdout, os.Stderr)) }

// command runs the program with h as the handler and returns its exit status.
func command(args []string, h message.HandlerFunc, stdout, stderr io.Writer) int {
	err := run(args, h, stdout, stderr)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp), errors.Is(err, errDiffers):
	default:
		fmt.Fprintln(stderr, "demo:", err)
	}
	return 1
}

func run(args []string, h message.HandlerFunc, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	kafkaAddr := flags.String("kafka", "", "brokers of a real Kafka, as `host:port`[,host:port]; embedded when empty")
	amqpURI := flags.String("amqp", "", "`url` of a real RabbitMQ; embedded when empty")
	name := flags.String("transport", "rabbitmq", "what the handler publishes to, embedded: "+transportNames())
	bucketURL := flags.String("s3", "", "`url` of a bucket for large bodies, such as http://localhost:9000/claims; files when empty")
	folder := flags.String("store", "", "`folder` for large bodies that are kept as files; a temporary one when empty")
	listen := flags.String("listen", "", "take real traffic on this `address`, such as :8080, until interrupted")
	curl := flags.Bool("curl", false, "print the curl commands of the requests, signed for the next five minutes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *curl {
		return printCurl(stdout, *listen)
	}
	to, err := findTransport(*name)
	if err != nil {
		return err
	}
	if *amqpURI != "" {
		if to.name != "rabbitmq" {
			return errors.New("-amqp is an address of -transport rabbitmq")
		}
		if _, err := amqp.ParseURI(*amqpURI); err != nil {
			return errors.New("-amqp is not the URL of an AMQP server") // err may hold a password
		}
	}

	c := config{transport: to, listen: *listen, handler: h, log: logger(stderr, slog.LevelInfo)}
	c.watermill = logger(stderr, slog.LevelWarn)
	registry := prometheus.NewRegistry()
	var errCounts error
	if c.counts, errCounts = metrics.New(metrics.Config{Registerer: registry}); errCounts != nil {
		return errCounts
	}
	embedded := *kafkaAddr == "" && *amqpURI == ""
	if *kafkaAddr != "" {
		c.kafka = strings.Split(*kafkaAddr, ",")
	} else {
		addr, stop, err := startKafka()
		if err != nil {
			return err
		}
		defer stop()
		c.kafka = []string{addr}
	}
	if *amqpURI == "" {
		var stop func()
		if c.next, stop, err = c.transport.start(c); err != nil {
			return err
		}
		defer stop()
	} else {
		c.next = rabbit(*amqpURI)
	}

	done, err := c.openBodies(*bucketURL, *folder, *listen != "" && !(*kafkaAddr == "" && *amqpURI == ""))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *listen != "" {
		c.topic, c.group = "hooks", "envelope-demo"
		return runLive(ctx, c, *kafkaAddr == "", *amqpURI == "")
	}
	c.topic, c.listen = "hooks", "127.0.0.1:0"
	if !embedded {
		c.topic, c.temporary = "demo-"+envelope.NewID()[24:], true // others use these servers as well
	}
	c.group = c.topic
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return runDemo(ctx, c, registry, stdout)
}

func logger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: plainErrors}))
}

// plainErrors logs the text of an error alone: those of Watermill would bring their stack.
func plainErrors(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(err.Error())
	}
	return a
}

// printCurl prints the commands that send the requests to a demo that runs with -listen.
func printCurl(w io.Writer, listen string) error {
	if listen == "" {
		listen = defaultAddr
	}
	if strings.HasPrefix(listen, ":") {
		listen = "localhost" + listen
	}
	if _, err := fmt.Fprintln(w, "cd demo/requests"); err != nil {
		return err
	}
	for _, s := range append(stops, stop{"forged", "A wrong signature"}) {
		r, err := readRequest(s.file)
		if err != nil {
			return err
		}
		r.sign(time.Now())
		if _, err := fmt.Fprintf(w, "\n# %s\n%s\n", s.title, r.curl(listen)); err != nil {
			return err
		}
	}
	return nil
}
