package peers

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
)

//go:embed python/pack.py
var pythonPack string

// A PackClaim is one claim of a pack, as its manifest describes it.
type PackClaim struct {
	ID          string  `json:"id"`
	Body        []byte  `json:"body"`
	ContentType *string `json:"content_type"`
	ReceivedAt  *int64  `json:"received_at"`
}

// BuildPack writes a pack to a file with a builder that has nothing of this library: it was
// written in Python from the description of the layout.
func BuildPack(ctx context.Context, file, packID string, claims []PackClaim) error {
	request, err := json.Marshal(map[string]any{"pack_id": packID, "claims": claims})
	if err != nil {
		return err
	}
	_, err = pack(ctx, request, "build", file)
	return err
}

// A ReadPack is what Python's zipfile reads of a pack.
type ReadPack struct {
	Names   []string          // of the entries, in their order
	Entries map[string][]byte // their contents, by their names
}

// OpenPack tests and reads a pack with Python's zipfile.
func OpenPack(ctx context.Context, file string) (ReadPack, error) {
	var read ReadPack
	text, err := pack(ctx, nil, "read", file)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	return read, err
}

func pack(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	environment, err := InstallPython(ctx)
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, environment+"/bin/python", append([]string{"-c", pythonPack}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("peers: pack.py %s: %w\n%s", strings.Join(args, " "), err, errs.String())
	}
	return out.Bytes(), nil
}
