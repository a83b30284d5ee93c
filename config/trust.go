package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

const (
	trustVersion = 1
	// maxApprovals is how many contents are kept per worktree, so that
	// switching between branches asks once for each.
	maxApprovals = 32
	// maxApprovedFiles bounds the files that are kept of one approval.
	maxApprovedFiles = 100
)

// TrustStore records, per worktree, the privileged settings that the user has
// approved. It is safe for concurrent use by several processes.
type TrustStore struct {
	// Path is the file. Its directory is created with the first approval.
	Path string
}

// NewTrustStore returns the store in the plugin's directory (see Sources.UserDir).
func NewTrustStore(userDir string) TrustStore {
	return TrustStore{Path: filepath.Join(userDir, "trust.json")}
}

// trustFile is the store's content. Keys of Roots are absolute paths.
type trustFile struct {
	Version int                   `json:"version"`
	Roots   map[string][]approval `json:"roots"`
	// Held are the settings of [TrustStore.Hold].
	Held map[string]Settings `json:"held,omitempty"`
}

// approval is one content that was approved, the newest last.
type approval struct {
	Digest   string    `json:"digest"`
	Approved time.Time `json:"approved"`
	// Files has a hash for each file that the digest covers. Only the latest
	// approval of its kind keeps them.
	Files map[string]string `json:"files,omitempty"`
}

var digestForm = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)

// Require returns an *UntrustedError if e has privileged settings that are not
// approved.
func (t TrustStore) Require(e Effective) error {
	if len(e.Privileged) == 0 {
		return nil
	}
	approved, err := t.Approved(e.root, e.PrivilegedDigest())
	if err != nil {
		return err
	}
	if !approved {
		return hint.Wrap(&UntrustedError{Root: e.root, Settings: e.Privileged}, "review them, then run %q", "docker ralph trust")
	}
	return nil
}

// Approved reports whether exactly this content was approved for root.
func (t TrustStore) Approved(root, digest string) (bool, error) {
	content, err := t.read()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(content.Roots[filepath.Clean(root)], func(a approval) bool {
		return a.Digest == digest
	}), nil
}

// Approve records the content with this digest (see
// Effective.PrivilegedDigest) as approved for root.
func (t TrustStore) Approve(root, digest string) error { return t.ApproveFiles(root, digest, nil) }

// ApprovedFiles returns the hashes that came with the latest approval of files
// for root (see ApproveFiles); nil if there is none.
func (t TrustStore) ApprovedFiles(root string) (map[string]string, error) {
	content, err := t.read()
	if err != nil {
		return nil, err
	}
	for _, a := range slices.Backward(content.Roots[filepath.Clean(root)]) {
		if a.Files != nil {
			return a.Files, nil
		}
	}
	return nil, nil
}

// ApproveFiles is Approve for a digest that covers files. Their hashes are kept,
// unless there are very many, to tell later which ones have changed.
func (t TrustStore) ApproveFiles(root, digest string, files map[string]string) error {
	if !digestForm().MatchString(digest) || !filepath.IsAbs(root) {
		return fmt.Errorf("approving %q for %q: not a digest and an absolute path", digest, root)
	}
	root = filepath.Clean(root)
	return t.update(func(content *trustFile) {
		list := slices.DeleteFunc(content.Roots[root], func(a approval) bool { return a.Digest == digest })
		if files != nil {
			for i := range list {
				list[i].Files = nil
			}
		}
		if len(files) > maxApprovedFiles {
			files = nil
		}
		list = append(list, approval{Digest: digest, Approved: time.Now().UTC().Truncate(time.Second), Files: files})
		content.Roots[root] = list[max(len(list)-maxApprovals, 0):]
	})
}

// Revoke removes all approvals of the worktrees with these roots. Existing
// sandboxes are not changed.
func (t TrustStore) Revoke(roots ...string) error {
	if _, err := os.Lstat(t.Path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return t.update(func(content *trustFile) {
		for _, root := range roots {
			delete(content.Roots, filepath.Clean(root))
		}
	})
}

// Hold records the settings of a repository's file while a command runs in which an agent can change it:
// until the user approves looser ones, they are in force.
func (t TrustStore) Hold(root string, settings Settings) error {
	if len(settings) == 0 {
		return t.Release(root) // nothing can be looser, but for what is privileged anyway
	}
	if held, err := t.Held(root); err != nil || maps.EqualFunc(held, settings, slices.Equal) {
		return err
	}
	return t.update(func(content *trustFile) {
		if content.Held == nil {
			content.Held = map[string]Settings{}
		}
		content.Held[filepath.Clean(root)] = settings
	})
}

// Held returns the settings that are in force for root; nil for those of the file.
func (t TrustStore) Held(root string) (Settings, error) {
	content, err := t.read()
	return content.Held[filepath.Clean(root)], err
}

// Release ends [TrustStore.Hold].
func (t TrustStore) Release(root string) error {
	if held, err := t.Held(root); err != nil || held == nil {
		return err
	}
	return t.update(func(content *trustFile) { delete(content.Held, filepath.Clean(root)) })
}

// update changes the file under its lock.
func (t TrustStore) update(change func(*trustFile)) error {
	if err := os.MkdirAll(filepath.Dir(t.Path), 0o700); err != nil {
		return fmt.Errorf("writing the trust store: %w", err)
	}
	lock := flock.New(t.Path+".lock", flock.SetPermissions(0o600))
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("locking the trust store %s: %w", t.Path, err)
	}
	defer func() { _ = lock.Close() }()
	content, err := t.read()
	if err != nil {
		return err
	}
	change(&content)
	encoded, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the trust store %s: %w", t.Path, err)
	}
	if err := atomicwriter.WriteFile(t.Path, append(encoded, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the trust store %s: %w", t.Path, err)
	}
	return nil
}

// read returns the store's content; a missing file is an empty store.
func (t TrustStore) read() (trustFile, error) {
	empty := trustFile{Version: trustVersion, Roots: map[string][]approval{}}
	if _, err := os.Lstat(t.Path); errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	f, err := os.OpenFile(t.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return trustFile{}, t.readError(err)
	}
	if info, err := f.Stat(); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		_ = f.Close()
		return trustFile{}, t.readError(fmt.Errorf("writable by other users (mode %04o)", info.Mode().Perm()))
	}
	encoded, err := readRegular(f)
	if err != nil {
		return trustFile{}, t.readError(err)
	}
	content, err := decodeTrust(encoded)
	if err != nil {
		return trustFile{}, t.readError(err)
	}
	return content, nil
}

// decodeTrust rejects everything that this version would not have written.
func decodeTrust(encoded []byte) (trustFile, error) {
	var content trustFile
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&content); err != nil {
		return trustFile{}, err
	}
	if decoder.More() {
		return trustFile{}, errors.New("unexpected data after the JSON value")
	}
	if content.Version != trustVersion {
		return trustFile{}, fmt.Errorf("unsupported version %d, expected %d", content.Version, trustVersion)
	}
	for root, list := range content.Roots {
		for _, a := range list {
			if !digestForm().MatchString(a.Digest) || !filepath.IsAbs(root) {
				return trustFile{}, fmt.Errorf("invalid entry %q of %q", a.Digest, root)
			}
		}
	}
	if content.Roots == nil {
		content.Roots = map[string][]approval{}
	}
	return content, nil
}

func (t TrustStore) readError(err error) error {
	return hint.Wrap(fmt.Errorf("reading the trust store %s: %w", t.Path, err), "restore the file, or remove it and approve again")
}
