package claimcheck

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sort"
	"time"
)

// A Pack is the object that a number of bodies of one tenant are stored in: a plain ZIP file,
// every entry of which is stored as it is, without ZIP64, under 4 GiB. All numbers of ZIP are
// little-endian.
//
//	index.bin      8 bytes per claim, in order: offset in the object and length of the
//	               claim's bytes, big-endian uint32 each
//	<claim id>     one entry per claim: its bytes
//	manifest.json  {"v":1,"claims":[{"claim_id","id","offset","length","sha256",
//	               "content_type","received_at"},...]}, the last two of which may be null;
//	               for people and ZIP tools
//
// index.bin comes first and no header has an extra field, so that the row of a claim is where
// a reader finds it without a listing: see [Locate]. Writers that put the sizes after the data
// (data descriptors) make ZIP files that cannot be read so.
//
// A Pack does not copy the bodies: it makes what is between them, and reads as one object. It
// is not changed once made, and any number of goroutines may read from it.
type Pack struct {
	first  Ref
	claims []Claim
	bodies []Body

	// made has all that is not a body: the index with its header, then the header of every
	// claim, then what follows the last body. base is the id of the first claim.
	made []byte
	base id
	size int64
}

var errPackSize = fmt.Errorf("a pack is under %d bytes", int64(MaxPackBytes))

// NewPackRef returns the reference to the first claim of a new pack of a tenant: t, which is
// the day it is stored under and counts for retention, and 64 random bits. Only a tenant that
// is none ([ErrInvalidTenant]) or a time outside of the years 1970 to 9999 ([ErrInvalidRef])
// is an error.
func NewPackRef(tenant string, t time.Time) (Ref, error) {
	ms := t.UnixMilli()
	if ms < 0 || ms > maxTime {
		return Ref{}, &Error{Code: CodeInvalidRef, Tenant: tenant, Err: errTime}
	}
	var u id
	binary.BigEndian.PutUint64(u[:], uint64(ms)<<16)
	rand.Read(u[6:14])
	return NewRef(tenant, u.String())
}

// NewPack returns a pack of bodies, in order. first is the reference to its first claim, which
// [NewPackRef] makes; the others follow from it. It computes the digests that are not given.
// The pack keeps bodies, which must not change while it is used.
//
// The error is an [*Error]: CodeInvalidRef when first is not the first claim of a pack or a
// digest is none, CodeInvalidTenant when a body is not of first's tenant, CodeTooLarge for no
// body, more than MaxPackClaims, or an object of MaxPackBytes or more.
func NewPack(first Ref, bodies []Body) (*Pack, error) {
	fail := func(code Code, err error) (*Pack, error) {
		return nil, &Error{Code: code, Op: "pack", Tenant: first.tenant, Key: first.Key(), Err: err}
	}
	if first.Key() == "" || first.Signed() || first.Index() != 0 {
		return fail(CodeInvalidRef, errors.New("not the first claim of a pack"))
	}
	if len(bodies) == 0 || len(bodies) > MaxPackClaims {
		return fail(CodeTooLarge, fmt.Errorf("%d bodies; a pack has 1 to %d", len(bodies), MaxPackClaims))
	}
	size := int64(indexStart + rowLen*len(bodies))
	for i := range bodies {
		if bodies[i].Tenant != first.tenant {
			return fail(CodeInvalidTenant, fmt.Errorf("body %d is another tenant's", i))
		}
		if s := bodies[i].SHA256; s != "" && !validDigest(s) {
			return fail(CodeInvalidRef, fmt.Errorf("body %d: %w", i, errNotDigest))
		}
		if size += claimLocalLen + int64(len(bodies[i].Data)); size >= MaxPackBytes {
			return fail(CodeTooLarge, errPackSize)
		}
	}
	p := &Pack{first: first, base: parseID(first.claimID), bodies: bodies, claims: make([]Claim, len(bodies))}
	p.writeClaims()
	manifest, err := p.manifest()
	if err != nil {
		return fail(CodeInvalidRef, err)
	}
	p.writeEnd(manifest, size)
	if p.size >= MaxPackBytes {
		return fail(CodeTooLarge, errPackSize)
	}
	return p, nil
}

// writeClaims writes the index and the headers of the claims, which need the digests.
func (p *Pack) writeClaims() {
	n := len(p.bodies)
	p.made = make([]byte, indexStart+rowLen*n, indexStart+(rowLen+claimLocalLen)*n)
	offset := uint32(len(p.made))
	for i := range p.bodies {
		data := p.bodies[i].Data
		digest, sum := digests(data, p.bodies[i].SHA256)
		claimID := p.base.at(i).String()
		p.claims[i] = Claim{Ref: Ref{tenant: p.first.tenant, claimID: claimID}, SHA256: digest, Size: int64(len(data))}

		offset += claimLocalLen
		row := p.made[indexStart+rowLen*i:]
		binary.BigEndian.PutUint32(row, offset)
		binary.BigEndian.PutUint32(row[4:], uint32(len(data)))
		offset += uint32(len(data))
		p.made = appendLocal(p.made, claimID, sum, uint32(len(data)))
	}
	index := p.made[indexStart : indexStart+rowLen*n]
	appendLocal(p.made[:0], indexName, crc32.ChecksumIEEE(index), uint32(len(index)))
}

// digests returns the sha256 of data in hex, unless it is known, and its CRC-32. Both are
// computed block by block, while the block is in the cache.
func digests(data []byte, known string) (string, uint32) {
	if known != "" {
		return known, crc32.ChecksumIEEE(data)
	}
	const block = 16 << 10
	h, sum := sha256.New(), uint32(0)
	for len(data) > 0 {
		b := data[:min(block, len(data))]
		data = data[len(b):]
		h.Write(b)
		sum = crc32.Update(sum, crc32.IEEETable, b)
	}
	return hex.EncodeToString(h.Sum(nil)), sum
}

// manifest returns the text of manifest.json.
func (p *Pack) manifest() ([]byte, error) {
	type claim struct {
		ClaimID     string `json:"claim_id"`
		ID          string `json:"id"`
		Offset      uint32 `json:"offset"`
		Length      uint32 `json:"length"`
		SHA256      string `json:"sha256"`
		ContentType any    `json:"content_type"`
		ReceivedAt  any    `json:"received_at"`
	}
	claims := make([]claim, len(p.claims))
	for i := range claims {
		offset, length := p.row(i)
		b := &p.bodies[i]
		claims[i] = claim{ClaimID: p.claims[i].Ref.claimID, ID: b.ID, Offset: offset, Length: length, SHA256: p.claims[i].SHA256}
		if b.ContentType != "" {
			claims[i].ContentType = b.ContentType
		}
		if !b.ReceivedAt.IsZero() {
			claims[i].ReceivedAt = b.ReceivedAt.UnixMilli()
		}
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // a content type may have an &
	if err := enc.Encode(struct {
		V      int     `json:"v"`
		Claims []claim `json:"claims"`
	}{1, claims}); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// writeEnd writes what follows the last body, which ends at offset.
func (p *Pack) writeEnd(manifest []byte, offset int64) {
	n := len(p.bodies)
	tail := localLen + len(manifestName) + len(manifest) + // the manifest
		centralLen + len(indexName) + (centralLen+claimIDLen)*n + centralLen + len(manifestName) + endLen
	p.size = offset + int64(tail)
	if p.size >= MaxPackBytes {
		return
	}
	made := make([]byte, len(p.made), len(p.made)+tail)
	copy(made, p.made)

	// A header of the directory repeats the one before the data.
	headers := made[indexStart+rowLen*n:]
	manifestAt, manifestHeader := uint32(offset), len(made)
	made = appendLocal(made, manifestName, crc32.ChecksumIEEE(manifest), uint32(len(manifest)))
	made = append(made, manifest...)
	directory := len(made)
	made = appendCentral(made, made[:indexStart], 0)
	for i := range n {
		at, _ := p.row(i)
		made = appendCentral(made, headers[claimLocalLen*i:][:claimLocalLen], at-claimLocalLen)
	}
	made = appendCentral(made, made[manifestHeader:][:localLen+len(manifestName)], manifestAt)

	directoryAt := manifestAt + uint32(directory-manifestHeader)
	directoryLen := uint32(len(made) - directory)
	le := binary.LittleEndian
	made = append(made, "PK\x05\x06"...)
	made = le.AppendUint32(made, 0) // disks
	made = le.AppendUint16(made, uint16(n+2))
	made = le.AppendUint16(made, uint16(n+2))
	made = le.AppendUint32(made, directoryLen)
	made = le.AppendUint32(made, directoryAt)
	p.made = le.AppendUint16(made, 0) // comment
}

// row returns where the bytes of a claim are in the object.
func (p *Pack) row(i int) (offset, length uint32) {
	row := p.made[indexStart+rowLen*i:]
	return binary.BigEndian.Uint32(row), binary.BigEndian.Uint32(row[4:])
}

// Key returns the key that the pack is to be stored under.
func (p *Pack) Key() string { return p.first.Key() }

// Claims returns what the messages of the bodies carry once the object is stored, in order.
func (p *Pack) Claims() []Claim { return slices.Clone(p.claims) }

// Object returns a new reader of the object, for [Store].Put.
func (p *Pack) Object() *io.SectionReader { return io.NewSectionReader((*packReader)(p), 0, p.size) }

// packReader is the object of a pack.
type packReader Pack

func (r *packReader) ReadAt(b []byte, at int64) (int, error) {
	p := (*Pack)(r)
	n := len(p.bodies)
	read := 0
	// The object is what was made before body 0, body 0, what was made before body 1, ...,
	// and what was made after the last body, at i == n.
	i := sort.Search(n, func(i int) bool { return p.end(i) > at })
	add := func(segment []byte, start int64) {
		if skip := at + int64(read) - start; read < len(b) && skip < int64(len(segment)) {
			read += copy(b[read:], segment[skip:])
		}
	}
	for ; i <= n && read < len(b); i++ {
		start, from := int64(0), 0 // of what was made before body i: in the object, in p.made
		if i > 0 {
			start, from = p.end(i-1), indexStart+rowLen*n+claimLocalLen*i
		}
		if i == n {
			add(p.made[from:], start)
			break
		}
		add(p.made[from:indexStart+rowLen*n+claimLocalLen*(i+1)], start)
		add(p.bodies[i].Data, p.end(i)-int64(len(p.bodies[i].Data)))
	}
	if read < len(b) {
		return read, io.EOF
	}
	return read, nil
}

// end returns the offset in the object after the bytes of a claim.
func (p *Pack) end(i int) int64 {
	offset, length := p.row(i)
	return int64(offset) + int64(length)
}
