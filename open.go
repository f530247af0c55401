package envelope

import "github.com/ThreeDotsLabs/watermill/message"

// Defaults fill in what a message that carries no envelope lacks. They never override what
// the message has.
type Defaults struct {
	SourceID    string // required for such a message, unless it has [MetadataSourceID]
	TenantID    string
	ContentType string
	Instance    string
	Region      string
}

// SealOptions say how a transport differs from the plain JSON form. The zero value puts all
// user metadata into the watermill_metadata member.
type SealOptions struct {
	// Native reports whether the transport carries this entry of the user's metadata beside
	// the body; the others go into the watermill_metadata member. nil: it carries none.
	Native func(name, value string) bool
	// EscapeNoncharacters escapes U+FFFE and U+FFFF, which XML refuses (SQS, SNS).
	EscapeNoncharacters bool
}

// Prepare returns msg as it would be sealed: msg itself when nothing needs to change, else a
// copy that keeps the context. The rules of open messages (package documentation) are
// applied: derived messages, claims, defaults, canonical metadata. It is idempotent: the
// result prepares to itself and is what Seal and SealedSize take.
//
// The only changes it makes to msg are a minted UUID where msg had none, and an empty
// Metadata where it was nil. Errors are permanent.
func Prepare(msg *message.Message, d Defaults) (*message.Message, error) { panic("todo") }

// Seal appends the wire form of a prepared message to dst: the JSON object, or the raw bytes
// of a malformed message that is passed on unchanged.
func Seal(dst []byte, prepared *message.Message, o SealOptions) ([]byte, error) { panic("todo") }

// SealedSize returns the length in bytes that Seal would append for a prepared message: with
// its body inline, and as a claim stored under tenant (used when the message has no tenant).
// A message that is a claim already has both sizes equal. It neither seals nor allocates.
func SealedSize(prepared *message.Message, o SealOptions, tenant string) (inline, claim int64) {
	panic("todo")
}

// IsReserved reports whether a metadata name is ours, in any letter case, or the framing of
// a transport: such names are never written from user metadata nor taken from a native
// attribute of a well-formed message.
func IsReserved(name string) bool { panic("todo") }

// Open parses the wire form into a new open message, whose Metadata has room for what a
// transport adds. It does not alias data. The error is an [*Error]; what to do with a message that
// cannot be read is the marshaler's business.
func Open(data []byte) (*message.Message, error) { panic("todo") }

// OpenMalformed returns the open form of bytes that cannot be read: an empty payload, the raw bytes
// and the reason in memory-only metadata, and the native headers as they came.
// id is the transport's own message id; a UUIDv7 is minted when it is empty.
func OpenMalformed(raw []byte, reason error, id string, native map[string]string) *message.Message {
	panic("todo")
}

// IsMalformed reports whether msg was opened by OpenMalformed and is unchanged since:
// its UUID is what it was and its payload is empty.
func IsMalformed(msg *message.Message) bool { panic("todo") }

// Raw returns the bytes of a malformed message as they came, or nil.
func Raw(msg *message.Message) []byte { panic("todo") }

// Message returns the open form of e.
func (e *Envelope) Message() *message.Message { panic("todo") }

// FromMessage returns the envelope of an open message.
func FromMessage(msg *message.Message) (*Envelope, error) { panic("todo") }

// Derive returns a new message made because of cause.
func Derive(cause *message.Message, name string, payload []byte) *message.Message { panic("todo") }

// Replay returns a copy of msg marked as a deliberate replay. replayID is a UUIDv7 when empty.
func Replay(msg *message.Message, replayID string) *message.Message { panic("todo") }
