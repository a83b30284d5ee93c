// Command pack puts programs for one architecture into one archive for embedding: a tar file in
// zstd, with their SHA-256 sums beside it, in the format of sha256sum. One archive for both, because
// they share the Go runtime and most libraries. It leaves both files alone when the programs have not
// changed, so that whatever embeds them is not built again either.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

const extension = ".tar.zst"

func main() {
	if err := run(os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 || !strings.HasSuffix(args[0], extension) {
		return errors.New("usage: pack DST.tar.zst PROGRAM [PROGRAM]")
	}
	return pack(args[0], args[1:])
}

func pack(target string, sources []string) error {
	programs := make([][]byte, len(sources))
	var sums []byte
	for i, source := range sources {
		var err error
		if programs[i], err = os.ReadFile(source); err != nil {
			return fmt.Errorf("reading a program to pack: %w", err)
		}
		sums = fmt.Appendf(sums, "%x  %s\n", sha256.Sum256(programs[i]), filepath.Base(source))
	}
	sumFile := strings.TrimSuffix(target, extension) + ".sha256"
	if upToDate(target, sumFile, sums) {
		return nil
	}
	packed, err := archive(sources, programs)
	if err != nil {
		return fmt.Errorf("packing %s: %w", target, err)
	}
	if err := replace(target, packed); err != nil {
		return err
	}
	// Last, because its content says that the archive is complete.
	return replace(sumFile, sums)
}

func upToDate(target, sumFile string, sums []byte) bool {
	old, err := os.ReadFile(sumFile)
	if err != nil || !bytes.Equal(old, sums) {
		return false
	}
	info, err := os.Stat(target)
	return err == nil && info.Size() > 0
}

func archive(names []string, programs [][]byte) ([]byte, error) {
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	for i, program := range programs {
		header := &tar.Header{Name: filepath.Base(names[i]), Mode: 0o755, Size: int64(len(program))}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(program); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	// The window reaches from the second program back into the first.
	const window = 64 << 20
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(window))
	if err != nil {
		return nil, err
	}
	packed := encoder.EncodeAll(content.Bytes(), nil)
	return packed, encoder.Close()
}

// replace writes a file under a temporary name first: a build that runs at the same moment embeds
// the old content or the new one, never a part.
func replace(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("creating the directory of %s: %w", path, err)
	}
	// A leading dot keeps it out of what go:embed takes from the directory.
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("renaming %s: %w", temporary, err)
	}
	return nil
}
