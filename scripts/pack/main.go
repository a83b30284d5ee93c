// Command pack compresses a program for embedding: SRC becomes DST (zstd), with the hex SHA-256 of
// the uncompressed bytes beside it in DST with ".zst" replaced by ".sha256". It leaves both files
// alone when SRC has not changed, so that whatever embeds them is not built again either.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 || !strings.HasSuffix(args[1], ".zst") {
		return errors.New("usage: pack SRC DST.zst")
	}
	return pack(args[0], args[1])
}

func pack(source, target string) error {
	program, err := os.ReadFile(source)
	if err != nil {
		return fmt.Errorf("reading the program to pack: %w", err)
	}
	digest := sha256.Sum256(program)
	sum := []byte(hex.EncodeToString(digest[:]) + "\n")
	sumFile := strings.TrimSuffix(target, ".zst") + ".sha256"
	if upToDate(target, sumFile, sum) {
		return nil
	}
	packed, err := compress(program)
	if err != nil {
		return fmt.Errorf("compressing %s: %w", source, err)
	}
	if err := replace(target, packed); err != nil {
		return err
	}
	// Last, because its content says that the archive is complete.
	return replace(sumFile, sum)
}

func upToDate(target, sumFile string, sum []byte) bool {
	old, err := os.ReadFile(sumFile)
	if err != nil || !bytes.Equal(old, sum) {
		return false
	}
	info, err := os.Stat(target)
	return err == nil && info.Size() > 0
}

func compress(program []byte) ([]byte, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		return nil, err
	}
	return encoder.EncodeAll(program, nil), encoder.Close()
}

// replace writes a file under a temporary name first: a build that runs at the same moment embeds
// the old content or the new one, never a part.
func replace(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of %s: %w", path, err)
	}
	// A leading dot keeps it out of what go:embed takes from the folder.
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("putting %s in place: %w", path, err)
	}
	return nil
}
