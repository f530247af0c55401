package snswire_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill-aws/sns"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/snswire"
	"github.com/watermill-envelope/envelope/marshaler/sqswire"
)

const topic = "arn:aws:sns:us-east-1:123456789012:hooks"

// What a topic is told is what a queue would be.
func TestMarshal(t *testing.T) {
	for _, arn := range []sns.TopicArn{topic, topic + ".fifo"} {
		for name, msg := range map[string]*message.Message{
			"the hook": hooktest.With(hooktest.Message(), "own", "kept"),
			"eleven":   hooktest.With(hooktest.Message(), "ankusa_replay_id", "r", "ankusa_ordering_key", "o", "tracestate", "a=b"),
		} {
			in := snswire.Marshaler{Source: "orders"}.Marshal(arn, msg)
			queued, err := sqswire.Marshaler{Source: "orders"}.Marshal(msg)
			if err != nil {
				t.Fatal(err)
			}
			if *in.TopicArn != string(arn) || in.TargetArn != nil || *in.Message != *queued.Body || len(in.MessageAttributes) != len(queued.MessageAttributes) {
				t.Errorf("%s: got %+v", name, in)
			}
			for attribute, value := range queued.MessageAttributes {
				if got := in.MessageAttributes[attribute]; aws.ToString(got.StringValue) != *value.StringValue || aws.ToString(got.DataType) != "String" {
					t.Errorf("%s: %s is %+v", name, attribute, got)
				}
			}
			group, id := queued.Attributes["MessageGroupId"], queued.Attributes["MessageDeduplicationId"]
			if arn == topic {
				group, id = "", ""
			}
			if aws.ToString(in.MessageGroupId) != group || aws.ToString(in.MessageDeduplicationId) != id || (in.MessageGroupId == nil) != (group == "") {
				t.Errorf("%s: group %q, id %q", name, aws.ToString(in.MessageGroupId), aws.ToString(in.MessageDeduplicationId))
			}
		}
	}
}

// A message that was received is another one for each topic, and the functions are told which.
func TestIDs(t *testing.T) {
	fifo := func(name string) sns.TopicArn { return sns.TopicArn(topic + name + ".fifo") }
	received := hooktest.With(hooktest.Message(), "envelope_receipt", "sqs-1")
	id := func(m snswire.Marshaler, name string) string {
		return *m.Marshal(fifo(name), received).MessageDeduplicationId
	}
	m := snswire.Marshaler{}
	if a, b := id(m, "a"), id(m, "b"); a == b || a != id(m, "a") || a == hooktest.ID || !strings.HasPrefix(a, hooktest.ID+":") {
		t.Errorf("the ids are %q and %q", a, b)
	}
	m.GroupID = func(arn string, msg *message.Message) string { return "g:" + arn + msg.UUID }
	m.DeduplicationID = func(arn string, msg *message.Message) string { return "d:" + arn + msg.UUID }
	in := m.Marshal(fifo("a"), received)
	if *in.MessageGroupId != "g:"+string(fifo("a"))+hooktest.ID || *in.MessageDeduplicationId != "d:"+string(fifo("a"))+hooktest.ID {
		t.Errorf("group %q, id %q", *in.MessageGroupId, *in.MessageDeduplicationId)
	}
}

// What cannot be sealed has no Message, which the SDK refuses.
func TestUnsealable(t *testing.T) {
	in := snswire.Marshaler{}.Marshal(topic, message.NewMessage("m", nil)) // no source
	if in == nil || in.Message != nil || *in.TopicArn != topic {
		t.Fatalf("got %+v", in)
	}
	if _, err := awssns.New(awssns.Options{Region: "r"}).Publish(t.Context(), in); err == nil || !strings.Contains(err.Error(), "Message") {
		t.Errorf("the SDK says %v", err)
	}
}

func TestSize(t *testing.T) {
	m := snswire.Marshaler{}
	inline, _, limit := m.Size(topic, hooktest.Message(), "")
	if want, _, _ := (sqswire.Marshaler{}).Size("", hooktest.Message(), ""); inline != want || limit != 262_144 {
		t.Errorf("%d of %d bytes, want %d", inline, limit, want)
	}
	if m.MaxMessageBytes = inline - 1; m.Fits(topic, hooktest.Message()) {
		t.Error("fits into one byte less")
	}
	if _, _, limit := m.Size(topic, hooktest.Message(), ""); limit != inline-1 {
		t.Errorf("the limit is %d", limit)
	}
	if err := (snswire.Marshaler{MaxMessageBytes: -1}).Validate(); err == nil {
		t.Error("a negative limit is valid")
	}
}

// server answers like SNS and keeps the requests.
func server(t *testing.T) (cfg aws.Config, requests func() []url.Values) {
	t.Helper()
	seen := make(chan url.Values, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		seen <- r.PostForm
		w.Header().Set("Content-Type", "text/xml")
		if r.PostForm.Get("Action") == "Publish" && strings.Contains(r.PostForm.Get("TopicArn"), "missing") && len(seen) == 1 {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`<ErrorResponse><Error><Type>Sender</Type><Code>NotFound</Code><Message>none</Message></Error></ErrorResponse>`))
			return
		}
		_, _ = w.Write([]byte(`<R><PublishResult><MessageId>1</MessageId></PublishResult><CreateTopicResult><TopicArn>` +
			strings.TrimSuffix(topic, "hooks") + r.PostForm.Get("Name") + `</TopicArn></CreateTopicResult></R>`))
	}))
	t.Cleanup(s.Close)
	credentials := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
	})
	return aws.Config{Region: "us-east-1", BaseEndpoint: &s.URL, Credentials: credentials, HTTPClient: s.Client()}, func() []url.Values {
		close(seen)
		var all []url.Values
		for r := range seen {
			all = append(all, r)
		}
		return all
	}
}

func TestPublisher(t *testing.T) {
	cfg, requests := server(t)
	pub, err := snswire.NewPublisher(sns.PublisherConfig{AWSConfig: cfg, TopicResolver: sns.TransparentTopicResolver{}}, snswire.Marshaler{Source: "orders"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The last one is too large: nothing is sent.
	large := message.NewMessage("large", make([]byte, 300_000))
	err = pub.Publish(topic, hooktest.Message(), large)
	if !errors.Is(err, envelope.ErrMessageTooLarge) || !envelope.IsPermanent(err) {
		t.Errorf("got %v", err)
	}
	if err := pub.Publish(topic, hooktest.Message(), message.NewMessage("m-2", []byte("x"))); err != nil {
		t.Fatal(err)
	}
	if err := pub.Close(); err != nil {
		t.Error(err)
	}
	sent := requests()
	if len(sent) != 2 {
		t.Fatalf("%d requests, want 2", len(sent))
	}
	opened, err := sqswire.Marshaler{}.Unmarshal(&sqstypes.Message{Body: aws.String(sent[0].Get("Message"))})
	if err != nil || opened.UUID != hooktest.ID || string(opened.Payload) != "hello" || sent[0].Get("TopicArn") != topic {
		t.Errorf("sent %v, %v", sent[0], err)
	}
	if !strings.Contains(sent[1].Get("Message"), `"source_id":"orders"`) {
		t.Errorf("sent %v", sent[1])
	}
	if inline, _, limit := pub.Size(topic, hooktest.Message(), ""); inline == 0 || limit != snswire.DefaultMaxMessageBytes || !pub.Fits(topic, hooktest.Message()) {
		t.Errorf("%d of %d", inline, limit)
	}
	if pub.String() != "sns.Publisher" {
		t.Errorf("the name is %s", pub)
	}
	if _, err := snswire.NewPublisher(sns.PublisherConfig{}, snswire.Marshaler{}, nil); err == nil {
		t.Error("a publisher without a resolver")
	}
	if _, err := snswire.NewPublisher(sns.PublisherConfig{AWSConfig: cfg, TopicResolver: sns.TransparentTopicResolver{}}, snswire.Marshaler{Source: "\xff"}, nil); err == nil {
		t.Error("a publisher with a source that is no text")
	}
}

// A topic that is not there is created, as a FIFO topic where its name says so.
func TestPublisherCreatesTopics(t *testing.T) {
	cfg, requests := server(t)
	pub, err := snswire.NewPublisher(sns.PublisherConfig{AWSConfig: cfg, TopicResolver: resolver{}}, snswire.Marshaler{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.Publish("missing.fifo", hooktest.Message()); err != nil {
		t.Fatal(err)
	}
	sent := requests()
	if len(sent) != 3 || sent[1].Get("Action") != "CreateTopic" || sent[2].Get("Message") != sent[0].Get("Message") {
		t.Fatalf("the requests are %v", sent)
	}
	if sent[1].Get("Attributes.entry.1.key") != "FifoTopic" || sent[1].Get("Attributes.entry.1.value") != "true" {
		t.Errorf("created by %v", sent[1])
	}
	if sent[2].Get("MessageGroupId") != "acme/stripe" || sent[2].Get("MessageDeduplicationId") != hooktest.ID {
		t.Errorf("sent %v", sent[2])
	}
}

type resolver struct{}

func (resolver) ResolveTopic(_ context.Context, name string) (sns.TopicArn, error) {
	return sns.TopicArn(topic + name), nil
}
