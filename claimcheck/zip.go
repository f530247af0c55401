package claimcheck

import "encoding/binary"

// ZIP as it is used here: the lengths of the headers, without names, and the names.
const (
	localLen   = 30
	centralLen = 46
	endLen     = 22

	indexName    = "index.bin"
	manifestName = "manifest.json"

	rowLen        = 8
	indexStart    = localLen + len(indexName) // of the rows, in the object
	claimLocalLen = localLen + claimIDLen
	method0       = 0
	year1980      = 0x0021 // January 1: the first date that ZIP has
	version20     = 20
)

// appendLocal appends the header before an entry's data.
func appendLocal(b []byte, name string, sum, size uint32) []byte {
	le := binary.LittleEndian
	b = append(b, "PK\x03\x04"...)
	b = le.AppendUint16(b, version20)
	b = le.AppendUint16(b, 0) // flags
	b = le.AppendUint16(b, method0)
	b = le.AppendUint16(b, 0) // time
	b = le.AppendUint16(b, year1980)
	b = le.AppendUint32(b, sum)
	b = le.AppendUint32(b, size)
	b = le.AppendUint32(b, size)
	b = le.AppendUint16(b, uint16(len(name)))
	b = le.AppendUint16(b, 0) // extra
	return append(b, name...)
}

// appendCentral appends the directory's header of the entry at offset, whose header local is.
func appendCentral(b, local []byte, offset uint32) []byte {
	le := binary.LittleEndian
	b = append(b, "PK\x01\x02"...)
	b = le.AppendUint16(b, version20) // made by
	b = append(b, local[4:localLen]...)
	b = append(b, make([]byte, 10)...) // comment, disk, attributes
	b = le.AppendUint32(b, offset)
	return append(b, local[localLen:]...)
}
