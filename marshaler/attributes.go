package marshaler

import (
	"slices"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

// contentType is the attribute that says what the sealed message is, not what its body is.
const (
	contentType     = "content_type"
	jsonContentType = "application/json"
	wireVersion     = "1"
)

// A list is what a prepared message has to say in attributes.
type list struct {
	id, source, tenant, idempotency string
	dedupe, replay, ordering        string
	traceparent, tracestate         string

	// Entries that ride beside the body: the user's, or those of a malformed message.
	user      int
	userBytes int64             // of their names and values
	first     [listed]Attribute // of them, all where there are so few
	malformed bool
	noTenant  bool // there is one, which the transport does not carry
}

// listed is how many entries a list holds, so that a message with few of them is gone
// through once.
const listed = 6

func (l *list) add(name, value string) {
	if l.user < listed {
		l.first[l.user] = Attribute{name, value}
	}
	l.user++
	l.userBytes += int64(len(name) + len(value))
}

// read collects the list in one pass over the metadata.
func (w *Wire) read(prepared *message.Message) list {
	if envelope.IsMalformed(prepared) {
		return w.readMalformed(prepared)
	}
	l := list{id: prepared.UUID}
	for name, value := range prepared.Metadata {
		switch name {
		case envelope.MetadataSourceID:
			l.source = value
		case envelope.MetadataTenantID:
			l.tenant = value
		case envelope.MetadataIdempotencyKey:
			l.idempotency = value
		case envelope.MetadataDedupeKey:
			l.dedupe = value
		case envelope.MetadataReplayID:
			l.replay = value
		case envelope.MetadataOrderingKey:
			l.ordering = value
		case envelope.MetadataTraceparent:
			l.traceparent = value
		case envelope.MetadataTracestate:
			l.tracestate = value
		case envelope.MetadataID, envelope.MetadataReceivedAt, envelope.MetadataContentType,
			envelope.MetadataVerification, envelope.MetadataInstance, envelope.MetadataRegion,
			envelope.MetadataSize, envelope.MetadataSHA256, envelope.MetadataHeaders:
			// The JSON alone says so. The default case would find out too, but more slowly.
		default:
			if !envelope.IsReserved(name) && w.native(name, value) {
				l.add(name, value)
			}
		}
	}
	if !envelope.ValidTraceparent(l.traceparent) {
		l.traceparent, l.tracestate = "", ""
	}
	if w.Carries != nil {
		l.leaveOut(w.Carries)
	}
	return l
}

// leaveOut empties the attributes that the transport does not carry.
func (l *list) leaveOut(carries func(name, value string) bool) {
	check := func(name string, value *string) {
		if *value != "" && !carries(name, *value) {
			*value = ""
		}
	}
	hadTenant := l.tenant != ""
	check(envelope.MetadataID, &l.id)
	check(envelope.MetadataSourceID, &l.source)
	check(envelope.MetadataTenantID, &l.tenant)
	check(envelope.MetadataIdempotencyKey, &l.idempotency)
	check(envelope.MetadataDedupeKey, &l.dedupe)
	check(envelope.MetadataReplayID, &l.replay)
	check(envelope.MetadataOrderingKey, &l.ordering)
	check(envelope.MetadataTraceparent, &l.traceparent)
	check(envelope.MetadataTracestate, &l.tracestate)
	l.noTenant = hadTenant && l.tenant == ""
}

func (w *Wire) readMalformed(prepared *message.Message) list {
	l := list{malformed: true}
	for name, value := range prepared.Metadata {
		if w.passedOn(name, value) {
			l.add(name, value)
		}
	}
	return l
}

// passedOn reports whether a metadata entry of a malformed message goes out with it: all
// native attributes that it came with, ours too, and what was added since. What lives in
// memory only does not, nor what a subscriber writes into the metadata of what it received.
func (w *Wire) passedOn(name, value string) bool {
	passes := w.Passes
	if passes == nil {
		passes = w.Native
	}
	return passes != nil && !memoryOnly(name) && !subscriberFraming(name) && passes(name, value)
}

// total returns the number of our own attributes, and the bytes of their names and values.
func (l *list) total(tenantAlways bool) (count int, bytes int64) {
	if l.malformed {
		return 0, 0
	}
	add := func(name string, value int) {
		if value > 0 {
			count++
			bytes += int64(len(name) + value)
		}
	}
	add(envelope.MetadataID, len(l.id))
	add(envelope.MetadataSourceID, len(l.source))
	if tenantAlways && l.tenant == "" && !l.noTenant {
		count, bytes = count+1, bytes+int64(len(envelope.MetadataTenantID))
	}
	add(envelope.MetadataTenantID, len(l.tenant))
	add(envelope.MetadataVersion, len(wireVersion))
	add(envelope.MetadataIdempotencyKey, len(l.idempotency))
	add(contentType, len(jsonContentType))
	add(envelope.MetadataDedupeKey, len(l.dedupe))
	add(envelope.MetadataReplayID, len(l.replay))
	add(envelope.MetadataOrderingKey, len(l.ordering))
	add(envelope.MetadataTraceparent, len(l.traceparent))
	add(envelope.MetadataTracestate, len(l.tracestate))
	return count, bytes
}

// attributes returns the attributes of a message in the order of the wire format.
func (w *Wire) attributes(prepared *message.Message, l *list) []Attribute {
	const most = 11
	attrs := make([]Attribute, 0, most+l.user)
	if !l.malformed {
		add := func(name, value string) {
			if value != "" || name == envelope.MetadataTenantID && w.TenantAlways && !l.noTenant {
				attrs = append(attrs, Attribute{name, value})
			}
		}
		add(envelope.MetadataID, l.id)
		add(envelope.MetadataSourceID, l.source)
		add(envelope.MetadataTenantID, l.tenant)
		add(envelope.MetadataVersion, wireVersion)
		add(envelope.MetadataIdempotencyKey, l.idempotency)
		add(contentType, jsonContentType)
		add(envelope.MetadataDedupeKey, l.dedupe)
		add(envelope.MetadataReplayID, l.replay)
		add(envelope.MetadataOrderingKey, l.ordering)
		add(envelope.MetadataTraceparent, l.traceparent)
		add(envelope.MetadataTracestate, l.tracestate)
	}
	own := len(attrs)
	if l.user <= listed {
		attrs = append(attrs, l.first[:l.user]...)
	} else {
		for name, value := range prepared.Metadata {
			if l.malformed && w.passedOn(name, value) || !l.malformed && !envelope.IsReserved(name) && w.native(name, value) {
				attrs = append(attrs, Attribute{name, value})
			}
		}
	}
	slices.SortFunc(attrs[own:], func(a, b Attribute) int { return strings.Compare(a.Name, b.Name) })
	return attrs
}
