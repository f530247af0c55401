package awssuite

import (
	"testing"

	wmsqs "github.com/ThreeDotsLabs/watermill-aws/sqs"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/marshaler/sqswire"
)

// Rollover moves a live queue from the stock marshaler to ours.
func Rollover(t *testing.T, url string) {
	stock := wmsqs.DefaultMarshalerUnmarshaler{}
	var opened suite.Opened
	both := SQS(url, Options{Marshaler: sqswire.Marshaler{Source: "suite", Fallback: stock, Observer: &opened}})
	suite.Rollover(t, SQS(url, Options{Marshaler: stock}), both, &opened, Peer{URL: url})
}
