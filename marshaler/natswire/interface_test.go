package natswire_test

import (
	wmjs "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/jetstream"
	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"

	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/natswire"
)

// The marshalers fit where watermill-nats takes one, and its marshalers fit as a Fallback.
var (
	_ wmnats.MarshalerUnmarshaler = natswire.Marshaler{}
	_ wmjs.Unmarshaler            = natswire.JetStreamUnmarshaler{}
	_ marshaler.Sealer            = natswire.Marshaler{}
	_                             = natswire.Marshaler{Fallback: wmnats.GobMarshaler{}}
	_                             = natswire.Marshaler{Fallback: wmnats.JSONMarshaler{}}
	_                             = natswire.Marshaler{Fallback: &wmnats.NATSMarshaler{}}
	_                             = natswire.JetStreamUnmarshaler{Fallback: wmjs.DefaultUnmarshaler{}}
)
