package sqswire_test

import (
	"testing"

	wmsqs "github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/watermill-envelope/envelope/internal/hooktest"
	"github.com/watermill-envelope/envelope/marshaler/sqswire"
)

func TestConfigs(t *testing.T) {
	const queue = "https://sqs.us-east-1.amazonaws.com/123456789012/hooks"
	for _, tt := range []struct {
		url       wmsqs.QueueURL
		m         sqswire.Marshaler
		group, id string
	}{
		{queue, sqswire.Marshaler{}, "", ""},
		{queue, sqswire.Marshaler{Fair: true}, "acme/stripe", ""},
		{queue + ".fifo", sqswire.Marshaler{}, "acme/stripe", hooktest.ID},
		{queue + ".fifo/x", sqswire.Marshaler{}, "", ""},
	} {
		c := sqswire.PublisherConfig(aws.Config{Region: "r"}, tt.m)
		msg := marshal(t, tt.m, hooktest.Message())
		in, err := c.GenerateSendMessageInput(t.Context(), tt.url, msg)
		if err != nil {
			t.Fatal(err)
		}
		if *in.QueueUrl != string(tt.url) || in.MessageBody != msg.Body || len(in.MessageAttributes) != len(msg.MessageAttributes) {
			t.Errorf("%s: sends %+v", tt.url, in)
		}
		if aws.ToString(in.MessageGroupId) != tt.group || aws.ToString(in.MessageDeduplicationId) != tt.id ||
			(in.MessageGroupId == nil) != (tt.group == "") || (in.MessageDeduplicationId == nil) != (tt.id == "") {
			t.Errorf("%s: group %q, id %q", tt.url, aws.ToString(in.MessageGroupId), aws.ToString(in.MessageDeduplicationId))
		}
		if _, ok := c.Marshaler.(sqswire.Marshaler); !ok || c.AWSConfig.Region != "r" {
			t.Errorf("the configuration is %+v", c)
		}
	}

	s := sqswire.SubscriberConfig(aws.Config{Region: "r"}, sqswire.Marshaler{})
	in, err := s.GenerateReceiveMessageInput(t.Context(), queue)
	if err != nil || *in.QueueUrl != queue || len(in.MessageAttributeNames) != 1 || in.MessageAttributeNames[0] != "All" ||
		len(in.MessageSystemAttributeNames) != 1 || in.MessageSystemAttributeNames[0] != "MessageGroupId" {
		t.Errorf("receives %+v, %v", in, err)
	}
	if _, ok := s.Unmarshaler.(sqswire.Marshaler); !ok || s.AWSConfig.Region != "r" {
		t.Errorf("the configuration is %+v", s)
	}

	for name, want := range map[wmsqs.QueueName]string{"hooks": "", "hooks.fifo": "true"} {
		for _, create := range []wmsqs.GenerateCreateQueueInputFunc{
			s.GenerateCreateQueueInput, sqswire.PublisherConfig(aws.Config{}, sqswire.Marshaler{}).GenerateCreateQueueInput,
		} {
			in, err := create(t.Context(), name, wmsqs.QueueConfigAttributes{VisibilityTimeout: "7"})
			if err != nil || *in.QueueName != string(name) || in.Attributes["FifoQueue"] != want || in.Attributes["VisibilityTimeout"] != "7" {
				t.Errorf("creates %+v, %v", in, err)
			}
		}
	}
}
