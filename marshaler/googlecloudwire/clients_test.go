package googlecloudwire_test

import (
	"testing"

	"cloud.google.com/go/pubsub" //nolint:staticcheck // v1 of watermill-googlecloud is made of it
	pubsub2 "cloud.google.com/go/pubsub/v2"
	"github.com/ThreeDotsLabs/watermill-googlecloud/pkg/googlecloud"
	googlecloud2 "github.com/ThreeDotsLabs/watermill-googlecloud/v2/pkg/googlecloud"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope/marshaler"
	"github.com/watermill-envelope/envelope/marshaler/googlecloudwire"
	googlecloudwire2 "github.com/watermill-envelope/envelope/marshaler/googlecloudwire/v2"
)

// The marshalers fit where watermill-googlecloud takes one, and its own fit as a Fallback.
var (
	_ googlecloud.Marshaler    = googlecloudwire.Marshaler{}
	_ googlecloud.Unmarshaler  = googlecloudwire.Marshaler{}
	_ marshaler.Fitter         = googlecloudwire.Marshaler{}
	_                          = googlecloudwire.Marshaler{Fallback: googlecloud.DefaultMarshalerUnmarshaler{}}
	_ googlecloud2.Marshaler   = googlecloudwire2.Marshaler{}
	_ googlecloud2.Unmarshaler = googlecloudwire2.Marshaler{}
	_ marshaler.Fitter         = googlecloudwire2.Marshaler{}
	_                          = googlecloudwire2.Marshaler{Fallback: googlecloud2.DefaultMarshalerUnmarshaler{}}
)

// options are the fields of both Marshalers that tests set.
type options struct {
	source, tenant string
	ordered        bool
	max            int64
	key            func(topic string, msg *message.Message) string
	observer       marshaler.Observer
	stock          bool // the stock marshaler is the Fallback
}

// pub is a message of either client.
type pub struct {
	id, data, key string
	attributes    map[string]string
}

// A codec is a Marshaler of either client.
type codec interface {
	marshaler.Fitter
	Validate() error
	marshal(topic string, msg *message.Message) (pub, error)
	unmarshal(in pub) (*message.Message, error)
	// sentBefore is msg as the stock marshaler sends it.
	sentBefore(t testing.TB, msg *message.Message) pub
	unmarshalNil() error
}

// each runs a test with both.
func each(t *testing.T, test func(t *testing.T, with func(options) codec)) {
	t.Helper()
	t.Run("client v1", func(t *testing.T) { test(t, newFirst) })
	t.Run("client v2", func(t *testing.T) { test(t, newSecond) })
}

type first struct{ googlecloudwire.Marshaler }

func newFirst(o options) codec {
	m := googlecloudwire.Marshaler{Source: o.source, Tenant: o.tenant, Ordered: o.ordered, MaxMessageBytes: o.max, OrderingKey: o.key, Observer: o.observer}
	if o.stock {
		m.Fallback = googlecloud.DefaultMarshalerUnmarshaler{}
	}
	return first{m}
}

func (c first) marshal(topic string, msg *message.Message) (pub, error) {
	out, err := c.Marshal(topic, msg)
	if err != nil {
		return pub{}, err
	}
	return pub{data: string(out.Data), key: out.OrderingKey, attributes: out.Attributes}, nil
}

func (c first) unmarshal(in pub) (*message.Message, error) {
	return c.Unmarshal(&pubsub.Message{ID: in.id, Data: []byte(in.data), Attributes: in.attributes, OrderingKey: in.key})
}

func (first) sentBefore(t testing.TB, msg *message.Message) pub {
	t.Helper()
	out, err := googlecloud.DefaultMarshalerUnmarshaler{}.Marshal("hooks", msg)
	if err != nil {
		t.Fatal(err)
	}
	return pub{data: string(out.Data), attributes: out.Attributes}
}

func (c first) unmarshalNil() error { _, err := c.Unmarshal(nil); return err }

type second struct{ googlecloudwire2.Marshaler }

func newSecond(o options) codec {
	m := googlecloudwire2.Marshaler{Source: o.source, Tenant: o.tenant, Ordered: o.ordered, MaxMessageBytes: o.max, OrderingKey: o.key, Observer: o.observer}
	if o.stock {
		m.Fallback = googlecloud2.DefaultMarshalerUnmarshaler{}
	}
	return second{m}
}

func (c second) marshal(topic string, msg *message.Message) (pub, error) {
	out, err := c.Marshal(topic, msg)
	if err != nil {
		return pub{}, err
	}
	return pub{data: string(out.Data), key: out.OrderingKey, attributes: out.Attributes}, nil
}

func (c second) unmarshal(in pub) (*message.Message, error) {
	return c.Unmarshal(&pubsub2.Message{ID: in.id, Data: []byte(in.data), Attributes: in.attributes, OrderingKey: in.key})
}

func (second) sentBefore(t testing.TB, msg *message.Message) pub {
	t.Helper()
	out, err := googlecloud2.DefaultMarshalerUnmarshaler{}.Marshal("hooks", msg)
	if err != nil {
		t.Fatal(err)
	}
	return pub{data: string(out.Data), attributes: out.Attributes}
}

func (c second) unmarshalNil() error { _, err := c.Unmarshal(nil); return err }

func marshal(t testing.TB, c codec, msg *message.Message) pub {
	t.Helper()
	out, err := c.marshal("hooks", msg)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func unmarshal(t testing.TB, c codec, in pub) *message.Message {
	t.Helper()
	msg, err := c.unmarshal(in)
	if err != nil || msg == nil || msg.Metadata == nil {
		t.Fatalf("%v, %v", msg, err)
	}
	return msg
}
