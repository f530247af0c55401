package marshaler_test

import (
	"fmt"
	"maps"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/marshaler"
)

// Packet is the message of the transport in this example: properties beside a payload, and
// at most 256 KiB of both.
type Packet struct {
	Properties map[string]string
	Payload    []byte
}

// PacketMarshaler is all that it needs: the fields that every marshaler has, the wire, and
// the way into a Packet and out of it.
type PacketMarshaler struct {
	Source, Tenant, ContentType, Instance, Region string
	Ordered                                       bool
	MaxMessageBytes                               int64
	Observer                                      marshaler.Observer
}

func (m PacketMarshaler) wire() marshaler.Wire {
	w := marshaler.Wire{
		Defaults: envelope.Defaults{
			SourceID: m.Source, TenantID: m.Tenant, ContentType: m.ContentType, Instance: m.Instance, Region: m.Region,
		},
		Ordered:         m.Ordered,
		Native:          func(name, _ string) bool { return len(name) <= 64 },
		MaxMessageBytes: m.MaxMessageBytes,
		Observer:        m.Observer,
	}
	if w.MaxMessageBytes <= 0 {
		w.MaxMessageBytes = 256 << 10
	}
	return w
}

// Prepare implements [marshaler.Sealer].
func (m PacketMarshaler) Prepare(_ string, msg *message.Message) (*message.Message, error) {
	w := m.wire()
	return w.Prepare(msg)
}

// Size implements [marshaler.Sealer].
func (m PacketMarshaler) Size(_ string, prepared *message.Message, tenant string) (inline, claim, limit int64) {
	w := m.wire()
	s := w.Size(prepared, tenant)
	return s.Inline, s.Claim, w.MaxMessageBytes
}

// Marshal seals a message.
func (m PacketMarshaler) Marshal(msg *message.Message) (*Packet, error) {
	w := m.wire()
	sealed, err := w.Marshal(msg)
	if err != nil {
		return nil, err
	}
	p := &Packet{Properties: make(map[string]string), Payload: sealed.Body}
	for _, a := range sealed.Attributes {
		p.Properties[a.Name] = a.Value
	}
	return p, nil
}

// Unmarshal opens a packet, whatever is in it.
func (m PacketMarshaler) Unmarshal(p *Packet) (*message.Message, error) {
	w := m.wire()
	return w.Open(marshaler.Received{Body: p.Payload, Native: maps.All(p.Properties)}), nil
}

// A marshaler for a transport of one's own.
func Example_transport() {
	m := PacketMarshaler{Source: "orders"}
	msg := message.NewMessage("m-1", []byte(`{"order":7}`))
	msg.Metadata.Set("correlation_id", "c-1")

	packet, err := m.Marshal(msg)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(packet.Properties["ankusa_source_id"], packet.Properties["correlation_id"])

	opened, err := m.Unmarshal(packet)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(opened.UUID, string(opened.Payload), opened.Metadata["correlation_id"])

	// What cannot be read is opened too, without a payload, and the gate refuses it.
	broken, err := m.Unmarshal(&Packet{Payload: []byte("broken")})
	fmt.Println(envelope.IsMalformed(broken), len(broken.Payload), err)
	// Output:
	// orders c-1
	// m-1 {"order":7} c-1
	// true 0 <nil>
}
