package redissuite

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
)

// putEntries writes bodies to a stream.
func putEntries(t testing.TB, addr string) func(context.Context, string, []string) error {
	client := Client(t, addr)
	return func(ctx context.Context, topic string, bodies []string) error {
		_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, body := range bodies {
				p.XAdd(ctx, &redis.XAddArgs{Stream: topic, Values: []any{"payload", body, "n", i}})
			}
			return nil
		})
		return err
	}
}

// putMessages writes bodies to a channel.
func putMessages(t testing.TB, addr string) func(context.Context, string, []string) error {
	client := Client(t, addr)
	return func(ctx context.Context, topic string, bodies []string) error {
		_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, body := range bodies {
				p.Publish(ctx, topic, body)
			}
			return nil
		})
		return err
	}
}
