package embeddedaws_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/watermill-envelope/envelope/integration/servers"
	"github.com/watermill-envelope/envelope/integration/servers/embeddedaws"
)

func start(t *testing.T) (*embeddedaws.Server, *sqs.Client, *sns.Client) {
	t.Helper()
	s, err := embeddedaws.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	servers.CloseAfter(t, s)
	config := aws.Config{
		Region: embeddedaws.Region, BaseEndpoint: aws.String(s.URL()), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	}
	return s, sqs.NewFromConfig(config), sns.NewFromConfig(config)
}

func TestErrorsAreThoseOfTheServices(t *testing.T) {
	_, queues, topics := start(t)
	_, err := queues.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("missing")})
	if missing := new(types.QueueDoesNotExist); !errors.As(err, &missing) {
		t.Errorf("a missing queue is %v", err)
	}
	_, err = topics.Publish(t.Context(), &sns.PublishInput{
		TopicArn: aws.String("arn:aws:sns:us-east-1:000000000000:missing"), Message: aws.String("x"),
	})
	if missing := new(snstypes.NotFoundException); !errors.As(err, &missing) {
		t.Errorf("a missing topic is %v", err)
	}
}

func TestQueuesOutliveAStop(t *testing.T) {
	s, queues, _ := start(t)
	ctx := t.Context()
	queue, err := queues.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("kept")})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := queues.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: queue.QueueUrl, Entries: []types.SendMessageBatchRequestEntry{
		{Id: aws.String("1"), MessageBody: aws.String("first")},
		{Id: aws.String("2"), MessageBody: aws.String("second")},
	}})
	if err != nil || len(batch.Successful) != 2 || len(batch.Failed) != 0 {
		t.Fatalf("a batch of two was answered %+v, %v", batch, err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	receive := &sqs.ReceiveMessageInput{QueueUrl: queue.QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 20}
	if got, err := queues.ReceiveMessage(ctx, receive); err == nil {
		t.Errorf("a stopped server answered %+v", got)
	}
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	got, err := queues.ReceiveMessage(ctx, receive)
	if err != nil || len(got.Messages) != 2 || *got.Messages[0].Body != "first" || *got.Messages[1].Body != "second" {
		t.Errorf("after a restart there are %+v, %v", got, err)
	}
}

// A receive that waits must not keep others from sending what it waits for.
func TestReceiveWaits(t *testing.T) {
	_, queues, _ := start(t)
	ctx := t.Context()
	queue, err := queues.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("waits")})
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		*sqs.ReceiveMessageOutput
		error
	}
	answers := make(chan answer)
	go func() {
		got, err := queues.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: queue.QueueUrl, WaitTimeSeconds: 20})
		answers <- answer{got, err}
	}()
	if _, err := queues.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: queue.QueueUrl, MessageBody: aws.String("late")}); err != nil {
		t.Fatal(err)
	}
	if got := <-answers; got.error != nil || len(got.Messages) != 1 || *got.Messages[0].Body != "late" {
		t.Errorf("received %+v, %v", got.ReceiveMessageOutput, got.error)
	}
}
