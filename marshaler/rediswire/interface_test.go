package rediswire_test

import (
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"

	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/rediswire"
)

// The marshaler fits where watermill-redisstream takes one, and its marshaler fits as a
// Fallback.
var (
	_ redisstream.MarshallerUnmarshaller = rediswire.Marshaler{}
	_ marshaler.Sealer                   = rediswire.Marshaler{}
	_                                    = rediswire.Marshaler{Fallback: redisstream.DefaultMarshallerUnmarshaller{}}

	_ marshaler.Sealer            = rediswire.PubSubMarshaler{}
	_ rediswire.PubSubUnmarshaler = rediswire.PubSubMarshaler{}
)
