package awssuite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	wmsns "github.com/ThreeDotsLabs/watermill-aws/sns"
	wmsqs "github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/watermill-envelope/envelope"
)

const fifo = ".fifo"

// named returns the name of the queue or the SNS topic of a topic: names have at most 80
// characters, of letters, digits, "-" and "_". That of a FIFO queue ends in ".fifo".
func named(topic string, ordered bool) string {
	const room = 40
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '-'
	}, topic)
	sum := sha256.Sum256([]byte(topic))
	name = name[:min(room, len(name))] + "-" + hex.EncodeToString(sum[:8])
	if ordered {
		name += fifo
	}
	return name
}

// byName finds and creates the queue of a topic by [named].
type byName struct{ ordered bool }

func (n byName) resolver() wmsqs.QueueUrlResolver {
	return wmsqs.NewGetQueueUrlByNameUrlResolver(wmsqs.GetQueueUrlByNameUrlResolverConfig{
		GenerateGetQueueUrlInput: func(_ context.Context, topic string) (*sqs.GetQueueUrlInput, error) {
			return &sqs.GetQueueUrlInput{QueueName: aws.String(named(topic, n.ordered))}, nil
		},
	})
}

func (n byName) create(inner wmsqs.GenerateCreateQueueInputFunc) wmsqs.GenerateCreateQueueInputFunc {
	if inner == nil {
		inner = wmsqs.GenerateCreateQueueInputDefault
	}
	return func(ctx context.Context, topic wmsqs.QueueName, attributes wmsqs.QueueConfigAttributes) (*sqs.CreateQueueInput, error) {
		return inner(ctx, wmsqs.QueueName(named(string(topic), n.ordered)), attributes)
	}
}

// topicARN is a topic resolver by [named].
type topicARN struct{ region, account string }

func (a topicARN) ResolveTopic(_ context.Context, topic string) (wmsns.TopicArn, error) {
	return wmsns.GenerateTopicArn(a.region, a.account, named(topic, false))
}

// topicName is a topic of the test's own, and of this run of it.
func topicName(t testing.TB, suffix string) string {
	return t.Name() + "." + envelope.NewID() + "." + suffix
}
