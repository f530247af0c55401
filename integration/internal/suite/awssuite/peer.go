package awssuite

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
)

// idAttribute is the attribute in which a peer writes the id of a message: a foreign producer
// may call it anything.
const idAttribute = "message_id"

// A queue is one as a client sees it that is not Watermill.
type queue struct {
	client *sqs.Client
	url    *string
}

// ensure returns the queue of a topic, which it creates where it is not there.
func ensure(ctx context.Context, t testing.TB, url, topic string, ordered bool) queue {
	t.Helper()
	q := queue{client: Client(url)}
	create := &sqs.CreateQueueInput{QueueName: aws.String(named(topic, ordered)), Attributes: map[string]string{
		string(types.QueueAttributeNameVisibilityTimeout): visibility,
	}}
	if ordered {
		create.Attributes[string(types.QueueAttributeNameFifoQueue)] = "true"
	}
	got, err := q.client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: create.QueueName})
	if missing := new(types.QueueDoesNotExist); errors.As(err, &missing) {
		created, err := q.client.CreateQueue(ctx, create)
		if err != nil {
			t.Fatal(err)
		}
		q.url = created.QueueUrl
		return q
	}
	if err != nil {
		t.Fatal(err)
	}
	q.url = got.QueueUrl
	return q
}

// next receives and deletes the next n messages, with all that the server says of them.
func (q queue) next(ctx context.Context, t testing.TB, n int) []types.Message {
	t.Helper()
	var got []types.Message
	for len(got) < n {
		out, err := q.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: q.url, MaxNumberOfMessages: int32(min(10, n-len(got))), WaitTimeSeconds: 1,
			MessageAttributeNames:       []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		if err != nil {
			t.Fatalf("%s: %d of %d messages: %v", *q.url, len(got), n, err)
		}
		if len(out.Messages) == 0 {
			continue
		}
		done := &sqs.DeleteMessageBatchInput{QueueUrl: q.url}
		for i, m := range out.Messages {
			done.Entries = append(done.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle})
		}
		if deleted, err := q.client.DeleteMessageBatch(ctx, done); err != nil || len(deleted.Failed) > 0 {
			t.Fatalf("%s: delete: %+v, %v", *q.url, deleted, err)
		}
		got = append(got, out.Messages...)
	}
	return got
}

// send puts one message into the queue and returns the server's answer.
func (q queue) send(ctx context.Context, body string, attributes map[string]types.MessageAttributeValue) error {
	_, err := q.client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: q.url, MessageBody: &body, MessageAttributes: attributes})
	return err
}

// stored returns how many messages are in the queue, whether they are visible or not.
func (q queue) stored(ctx context.Context, t testing.TB) int {
	t.Helper()
	names := []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
	}
	got, err := q.client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: q.url, AttributeNames: names})
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, name := range names {
		n, err := strconv.Atoi(got.Attributes[string(name)])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// text is an attribute of the type String.
func text(value string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
}

// Peer is a [suite.Peer] that writes and reads queues with the AWS SDK alone.
type Peer struct{ URL string }

// TextOnly implements [suite.TextPeer].
func (Peer) TextOnly() {}

// Keep implements [suite.Peer]: a queue keeps everything.
func (p Peer) Keep(t testing.TB, topic string) {
	t.Helper()
	ensure(suite.Context(t), t, p.URL, topic, false)
}

// Watch implements [suite.Peer]: it takes what it reads out of the queue.
func (p Peer) Watch(ctx context.Context, t testing.TB, topic string) func(int) []suite.Raw {
	t.Helper()
	q := ensure(ctx, t, p.URL, topic, false)
	return func(n int) []suite.Raw {
		t.Helper()
		var raws []suite.Raw
		for _, m := range q.next(ctx, t, n) {
			raws = append(raws, raw(m))
		}
		return raws
	}
}

func raw(m types.Message) suite.Raw {
	r := suite.Raw{Body: []byte(*m.Body)}
	for name, value := range m.MessageAttributes {
		if name == idAttribute {
			r.ID = *value.StringValue
		} else {
			r.Headers = append(r.Headers, suite.Pair{Name: name, Value: aws.ToString(value.StringValue)})
		}
	}
	return r
}

// Put implements [suite.Peer].
func (p Peer) Put(ctx context.Context, t testing.TB, topic string, m suite.Raw) {
	t.Helper()
	attributes := map[string]types.MessageAttributeValue{}
	if m.ID != "" {
		attributes[idAttribute] = text(m.ID)
	}
	for _, h := range m.Headers {
		attributes[h.Name] = text(h.Value)
	}
	if err := ensure(ctx, t, p.URL, topic, false).send(ctx, string(m.Body), attributes); err != nil {
		t.Fatal(err)
	}
}

// Refuse implements [suite.Peer] by saying that SQS cannot.
func (Peer) Refuse(_ context.Context, t testing.TB, _ string) func() {
	t.Helper()
	t.Fatal("no queue refuses what another takes")
	return nil
}
