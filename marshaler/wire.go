package marshaler

import (
	"strings"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

// A Wire says what one transport carries and counts. It is the core of every Marshaler:
// plain data, made for each call, with no state of its own.
//
// To publish: Marshal, or its steps Prepare, Size, Check and Seal. To receive: Open.
type Wire struct {
	// Defaults fill in what a message lacks that carries no envelope.
	Defaults envelope.Defaults
	// Ordered writes the lane key as ordering key on messages that have none.
	Ordered bool

	// Native reports whether the transport carries this name and value beside the body. nil:
	// it carries none, and all metadata of the user go into the JSON. It is asked only for
	// names that are not empty and not content_type, and for valid UTF-8; for a malformed
	// message it is asked about every native attribute that came with it.
	Native func(name, value string) bool
	// Passes is Native for the native attributes of a malformed message, where a transport
	// keeps those and has none for the user's metadata; nil: Native.
	Passes func(name, value string) bool
	// Text reports whether the transport carries the bytes of a malformed message as they
	// are; nil: it carries any.
	Text func(raw []byte) bool
	// Carries reports whether the transport carries this attribute of ours as it is; nil: it
	// carries all of them. One that it does not is left out: the JSON has it. It is asked only
	// for values that are not empty, and not for those that never vary.
	Carries func(name, value string) bool
	// TenantAlways writes ankusa_tenant_id for a message without a tenant too, as the empty
	// string: the rule of transports with headers. All other empty attributes are left out.
	TenantAlways bool
	// EscapeNoncharacters escapes U+FFFE and U+FFFF, for transports that speak XML.
	EscapeNoncharacters bool

	// MaxAttributes is how many attributes the transport takes, and MaxAttributeBytes how
	// many bytes of them as it counts; 0 is no limit. Where the metadata of the user do not
	// fit as well they all go into the JSON, and tracestate, which is there too, gives way
	// next.
	MaxAttributes     int
	MaxAttributeBytes int64
	// PerAttribute is what the transport counts for an attribute beside its name and value,
	// and PerMessage what it counts beside body and attributes, in bytes.
	PerAttribute, PerMessage int64
	// PerMetadata is what it counts more for an entry of the user's metadata than for an
	// attribute of ours, such as a prefix of its name; not for what a malformed message
	// passes on.
	PerMetadata int64
	// Apart says that attributes do not count as part of the message.
	Apart bool
	// MaxMessageBytes is the most that the transport takes, as it counts.
	MaxMessageBytes int64

	// Observer counts malformed messages and those a fallback read; nil counts nothing.
	Observer Observer
}

// An Attribute is one name and value beside the body.
type Attribute struct{ Name, Value string }

// Sealed is a message as it goes to the transport.
type Sealed struct {
	// ID is the id of the message.
	ID string
	// Body is the JSON object, or the raw bytes of a malformed message that is passed on.
	Body []byte
	// Attributes are the attributes in the order of the wire format, then the metadata of
	// the user that ride beside the body, sorted by name. Of a malformed message they are
	// the native attributes that it came with and its other metadata, sorted by name.
	Attributes []Attribute
}

// Size is what a prepared message takes on the wire, in bytes.
type Size struct {
	// Inline and Claim are what the transport counts for the whole message: with its body
	// inline, and as a claim.
	Inline, Claim int64
	// Attributes is what it counts for the attributes.
	Attributes int64

	body     int64 // of the sealed body
	list     list
	inMember bool // all metadata of the user are in the JSON
}

// Prepare returns msg as it would be sealed: see [Sealer].
//
// A malformed message that is over one of the limits, or that Text refuses, becomes the body of
// an envelope: application/octet-stream, with the code as metadata malformed_code, and with
// "malformed" as its source where there is no default. In this form it can be checked in.
func (w *Wire) Prepare(msg *message.Message) (*message.Message, error) {
	p, err := w.options(false).Prepare(msg, w.Defaults)
	if err != nil {
		return nil, err
	}
	if envelope.IsMalformed(p) {
		s := w.Size(p, "")
		fits := s.Inline <= w.MaxMessageBytes && !w.full(s.list.user, s.list.userBytes)
		if fits && (w.Text == nil || w.Text(envelope.Raw(p))) {
			return p, nil
		}
		if p, err = w.enclose(p); err != nil {
			return nil, err
		}
	}
	if w.Ordered && p.Metadata[envelope.MetadataOrderingKey] == "" {
		if p == msg {
			p = msg.CopyWithContext()
		}
		p.Metadata[envelope.MetadataOrderingKey] = envelope.LaneKeyOf(p)
	}
	return p, nil
}

// enclose returns a malformed message as the body of a new envelope under the same id.
func (w *Wire) enclose(malformed *message.Message) (*message.Message, error) {
	msg := message.NewMessageWithContext(malformed.Context(), malformed.UUID, envelope.Raw(malformed))
	for name, value := range malformed.Metadata {
		if usable(name, value) {
			msg.Metadata[name] = value
		}
	}
	code, _, _ := strings.Cut(malformed.Metadata[envelope.MetadataMalformed], ":")
	msg.Metadata["malformed_code"] = code
	msg.Metadata[envelope.MetadataContentType] = "application/octet-stream"
	if receipt := malformed.Metadata[envelope.MetadataReceipt]; receipt != "" {
		msg.Metadata[envelope.MetadataReceipt] = receipt
	}
	d := w.Defaults
	if d.SourceID == "" {
		d.SourceID = "malformed"
	}
	return w.options(false).Prepare(msg, d)
}

// Size measures a prepared message, as it is and as a claim that is stored under tenant. It
// does not allocate.
func (w *Wire) Size(prepared *message.Message, tenant string) Size {
	s := Size{list: w.read(prepared)}
	l := &s.list
	count, bytes := l.total(w.TenantAlways)
	if l.user > 0 && !l.malformed && w.full(count+l.user, bytes+l.userBytes) {
		s.inMember, l.user, l.userBytes = true, 0, 0
	}
	if l.tracestate != "" && w.full(count, bytes) {
		count, bytes = count-1, bytes-int64(len(envelope.MetadataTracestate)+len(l.tracestate))
		l.tracestate = ""
	}
	s.Attributes = bytes + l.userBytes + int64(count+l.user)*w.PerAttribute
	if !l.malformed {
		s.Attributes += int64(l.user) * w.PerMetadata
	}

	inline, claim := envelope.SealedSize(prepared, w.options(s.inMember), tenant)
	beside := w.PerMessage
	if !w.Apart {
		beside += s.Attributes
	}
	s.body = inline
	s.Inline, s.Claim = inline+beside, claim+beside
	return s
}

// Fits reports whether a prepared message is certainly not over MaxMessageBytes. False says
// nothing. It does not allocate.
func (w *Wire) Fits(prepared *message.Message) bool {
	const (
		// What no entry of metadata is the cause of: names, the digest, the size.
		fixed = 1024
		// A byte of metadata becomes at most six in the JSON, may be in an attribute too, and
		// in a key.
		each = 6 + 1 + 1
		// An entry in the JSON has quotes, a colon and a comma.
		entry = len(`"":"",`)
		// The attributes that have no entry, or are one of their own.
		attributes = 11
	)
	n := w.PerMessage + fixed + attributes*w.PerAttribute + (int64(len(prepared.Payload))/3+1)*4
	for name, value := range prepared.Metadata {
		n += int64((len(name)+len(value))*each+entry) + w.PerAttribute + w.PerMetadata
	}
	return n <= w.MaxMessageBytes
}

// full reports whether this many attributes, with this many bytes of names and values, are
// more than the transport takes.
func (w *Wire) full(count int, bytes int64) bool {
	return w.MaxAttributes > 0 && count > w.MaxAttributes ||
		w.MaxAttributeBytes > 0 && bytes+int64(count)*w.PerAttribute > w.MaxAttributeBytes
}

// Check returns the [envelope.TooLargeError] of a message that is over MaxMessageBytes, or nil.
func (w *Wire) Check(s Size) error {
	if s.Inline <= w.MaxMessageBytes {
		return nil
	}
	return &envelope.TooLargeError{Size: s.Inline, Max: w.MaxMessageBytes}
}

// Seal seals a prepared message that was measured. The body has exactly the room that it
// needs. Errors are permanent.
func (w *Wire) Seal(prepared *message.Message, s Size) (Sealed, error) {
	body, err := envelope.Seal(make([]byte, 0, s.body), prepared, w.options(s.inMember))
	if err != nil {
		return Sealed{}, err
	}
	return Sealed{ID: prepared.UUID, Body: body, Attributes: w.attributes(prepared, &s.list)}, nil
}

// Marshal prepares, measures, checks and seals msg: what a marshaler does whose transport
// counts nothing that it finds out on the way, such as a key. Errors are permanent.
func (w *Wire) Marshal(msg *message.Message) (Sealed, error) {
	prepared, err := w.Prepare(msg)
	if err != nil {
		return Sealed{}, err
	}
	size := w.Size(prepared, "")
	if err := w.Check(size); err != nil {
		return Sealed{}, err
	}
	return w.Seal(prepared, size)
}

func (w *Wire) options(inMember bool) envelope.SealOptions {
	o := envelope.SealOptions{EscapeNoncharacters: w.EscapeNoncharacters}
	if w.Native != nil && !inMember {
		o.Native = w.native
	}
	return o
}

// native reports whether this entry of the user's metadata rides beside the body.
func (w *Wire) native(name, value string) bool {
	return w.Native != nil && name != "" && !strings.EqualFold(name, contentType) &&
		utf8.ValidString(name) && utf8.ValidString(value) && w.Native(name, value)
}
