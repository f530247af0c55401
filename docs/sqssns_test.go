package docs_test

import (
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-aws/sns"
	"github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/watermill-envelope/envelope/marshaler/snswire"
	"github.com/watermill-envelope/envelope/marshaler/sqswire"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func sqsQueues(cfg aws.Config, router *message.Router, handle message.NoPublishHandlerFunc, logger watermill.LoggerAdapter) error {
	m := sqswire.Marshaler{Source: "orders"}

	pub, err := sqs.NewPublisher(sqswire.PublisherConfig(cfg, m), logger)
	if err != nil {
		return err
	}
	sub, err := sqs.NewSubscriber(sqswire.SubscriberConfig(cfg, m), logger)
	if err != nil {
		return err
	}

	router.AddMiddleware(hookmw.Malformed{}.Middleware)
	router.AddConsumerHandler("invoices", "hooks", sub, handle)
	return pub.Close()
}

func snsTopics(cfg aws.Config, resolver sns.TopicResolver, logger watermill.LoggerAdapter) error {
	pub, err := snswire.NewPublisher(sns.PublisherConfig{
		AWSConfig:     cfg,
		TopicResolver: resolver,
	}, snswire.Marshaler{Source: "orders"}, logger)
	if err != nil {
		return err
	}
	sub, err := sns.NewSubscriber(sns.SubscriberConfig{
		AWSConfig:            cfg,
		TopicResolver:        resolver,
		GenerateSqsQueueName: sns.GenerateSqsQueueNameEqualToTopicName,
	}, sqswire.SubscriberConfig(cfg, sqswire.Marshaler{}), logger)
	if err != nil {
		return err
	}
	if err := sub.Close(); err != nil {
		return err
	}
	return pub.Close()
}

func sqsFallback() sqswire.Marshaler {
	var seen counts
	m := sqswire.Marshaler{Source: "orders", Fallback: sqs.DefaultMarshalerUnmarshaler{}, Observer: &seen}
	return m
}
