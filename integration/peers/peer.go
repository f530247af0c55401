package peers

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"
)

// An SDK names one version of one SDK.
type SDK string

// The SDKs that are tried. Their versions are pinned in python/requirements.txt and
// rust/Cargo.lock.
const (
	Python050 SDK = "Python 0.5.0"
	Rust060   SDK = "Rust 0.6.0"
)

// answerTimeout bounds one answer; the largest message of the tests takes milliseconds.
const answerTimeout = time.Minute

// A Peer is a running program that decodes messages and redeems claims with an SDK. It ends
// with the test that started it, and answers one request at a time: it is not safe for
// concurrent use.
type Peer struct {
	SDK SDK
	// Unknown lists the names of [Decoded] that this version of the SDK does not expose.
	Unknown []string

	in    *os.File
	out   *os.File
	lines *bufio.Reader
}

// Decoded is what an SDK made of a message: the fields under their names on the wire, null
// as nil, numbers as [json.Number], objects as map[string]any, and
//
//   - "body": the decoded body in base64, nil for a claim;
//   - "key" and "key_with_replay": the SDK's key to deduplicate by;
//   - "trusted": whether the SDK takes the hook for verified, where it knows.
type Decoded map[string]any

// A Refusal is an SDK's error.
type Refusal struct {
	Class   string // the type of the error
	Code    string // empty when it is not the error that the SDK documents
	Field   string // the field at fault, where the code has one
	Message string
}

// String returns the code and the field, or the class of an error without a code.
func (r *Refusal) String() string {
	switch {
	case r.Code == "":
		return r.Class
	case r.Field == "":
		return r.Code
	default:
		return r.Code + " " + r.Field
	}
}

// Decode gives the SDK the bytes that a broker delivered. Exactly one of its results is not
// nil. A peer that does not answer ends the test.
func (p *Peer) Decode(t testing.TB, value []byte) (Decoded, *Refusal) {
	t.Helper()
	var answer struct {
		Decoded Decoded
		Refusal *Refusal
	}
	text := p.ask(t, append(base64.StdEncoding.AppendEncode(nil, value), '\n'), &answer)
	if (answer.Decoded == nil) == (answer.Refusal == nil) {
		t.Fatalf("%s: no verdict in the answer %.200q", p.SDK, text)
	}
	return answer.Decoded, answer.Refusal
}

// ask sends a line and reads the answer, whose text it returns as well.
func (p *Peer) ask(t testing.TB, line []byte, answer any) []byte {
	t.Helper()
	if _, err := p.in.Write(line); err != nil {
		t.Fatalf("%s: %v", p.SDK, err)
	}
	if err := p.out.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
		t.Fatalf("%s: %v", p.SDK, err)
	}
	text, err := p.lines.ReadBytes('\n')
	if err != nil {
		t.Fatalf("%s: no answer: %v", p.SDK, err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(answer); err != nil {
		t.Fatalf("%s: %v in the answer %.200q", p.SDK, err, text)
	}
	return text
}

// start runs a peer for the rest of the test.
func start(t testing.TB, p *Peer, name string, args ...string) *Peer {
	t.Helper()
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inRead, outWrite, &stderr
	// The SDKs honour proxies from the environment.
	cmd.Env = append(os.Environ(), "NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost")
	err = cmd.Start()
	inRead.Close()
	outWrite.Close()
	if err != nil {
		t.Fatalf("%s: %v", p.SDK, err)
	}
	p.in, p.out, p.lines = inWrite, outRead, bufio.NewReader(outRead)
	t.Cleanup(func() {
		inWrite.Close()
		_ = cmd.Wait() // the end of the test's context killed it
		outRead.Close()
		if stderr.Len() > 0 {
			t.Errorf("%s wrote to standard error: %.2000s", p.SDK, stderr.Bytes())
		}
	})
	return p
}
