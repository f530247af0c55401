package sqswire_test

import (
	"github.com/ThreeDotsLabs/watermill-aws/sqs"

	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/sqswire"
)

// The marshaler fits where watermill-aws takes one, and its marshaler fits as a Fallback.
var (
	_ sqs.Marshaler    = sqswire.Marshaler{}
	_ sqs.Unmarshaler  = sqswire.Marshaler{}
	_ marshaler.Sealer = sqswire.Marshaler{}
	_                  = sqswire.Marshaler{Fallback: sqs.DefaultMarshalerUnmarshaler{}}
)
