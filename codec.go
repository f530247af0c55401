package envelope

// ParseWire parses one message and verifies its size and digest.
func ParseWire(data []byte) (*Envelope, error) { panic("todo") }

// ParseWireInto is ParseWire with Body decoded into the spare room of dst.
func ParseWireInto(dst []byte, data []byte) (*Envelope, error) { panic("todo") }

// AppendWire appends the wire form of e to dst.
func (e *Envelope) AppendWire(dst []byte) ([]byte, error) { panic("todo") }

// appendWire appends f; parse fills f from data, decoding the body into the spare room of dst.
func (f *fields) appendWire(dst []byte, escapeNoncharacters bool) ([]byte, error) { panic("todo") }

// wireSize is the exact length that appendWire appends, with the body inline, or for f.claim when set.
func (f *fields) wireSize(escapeNoncharacters bool) int64 { panic("todo") }

func (f *fields) parse(dst, data []byte) error { panic("todo") }
