package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/pattern"
)

const (
	trustVersion = 1
	// maxApprovals is how many contents are remembered per work tree, so that
	// going to and fro between branches asks once for each. The oldest is
	// forgotten.
	maxApprovals = 32
	// maxApprovedFiles bounds the list of files that is kept of one approval, to
	// keep the store small.
	maxApprovedFiles = 100
)

// TrustStore remembers, per work tree, which widening settings the user has
// approved. Processes can use one file at the same time.
type TrustStore struct {
	// Path is the file; the folder is made when the first approval is
	// written.
	Path string
}

// NewTrustStore is the store in the plugin's folder (see Sources.UserDir).
func NewTrustStore(userDir string) TrustStore {
	return TrustStore{Path: filepath.Join(userDir, "trust.json")}
}

// trustFile is the store's content. Keys of Roots are absolute paths.
type trustFile struct {
	Version int                   `json:"version"`
	Roots   map[string][]approval `json:"roots"`
}

// approval is one content that was approved, the newest last.
type approval struct {
	Digest   string    `json:"digest"`
	Approved time.Time `json:"approved"`
	// Files has a hash for each file that the digest covers. Only the latest
	// approval of its kind keeps them.
	Files map[string]string `json:"files,omitempty"`
}

var digestForm = pattern.New(`^sha256:[0-9a-f]{64}$`)

// Require returns an *UntrustedError unless e has nothing to approve or all of
// it is approved.
func (t TrustStore) Require(e Effective) error {
	if len(e.Widening) == 0 {
		return nil
	}
	approved, err := t.Approved(e.root, e.WideningDigest())
	if err != nil {
		return err
	}
	if !approved {
		return &UntrustedError{Root: e.root, Settings: e.Widening}
	}
	return nil
}

// Approved says whether exactly this content was approved for root. A file
// that cannot be read or understood is an error and approves nothing.
func (t TrustStore) Approved(root, digest string) (bool, error) {
	content, err := t.read()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(content.Roots[filepath.Clean(root)], func(a approval) bool {
		return a.Digest == digest
	}), nil
}

// Approve remembers the content with this digest (see
// Effective.WideningDigest) as approved for root.
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

// Revoke forgets every approval of the work trees with these roots. Sandboxes
// that exist stay as they are.
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

// update changes the file under its lock.
func (t TrustStore) update(change func(*trustFile)) error {
	if err := os.MkdirAll(filepath.Dir(t.Path), 0o700); err != nil {
		return fmt.Errorf("writing the trust store: %w", err)
	}
	// Held for one read and one write, and let go by the kernel if the process
	// dies: waiting for it is short.
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
		return trustFile{}, t.broken(err)
	}
	if info, err := f.Stat(); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		_ = f.Close()
		return trustFile{}, t.broken(fmt.Errorf("others can write to it (mode %04o)", info.Mode().Perm()))
	}
	encoded, err := readRegular(f)
	if err != nil {
		return trustFile{}, t.broken(err)
	}
	content, err := decodeTrust(encoded)
	if err != nil {
		return trustFile{}, t.broken(err)
	}
	return content, nil
}

// decodeTrust reads a store's content and believes nothing that this version
// would not have written.
func decodeTrust(encoded []byte) (trustFile, error) {
	var content trustFile
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&content); err != nil {
		return trustFile{}, err
	}
	if decoder.More() {
		return trustFile{}, errors.New("something follows the JSON value")
	}
	if content.Version != trustVersion {
		return trustFile{}, fmt.Errorf("it has version %d, and this docker ralph knows version %d", content.Version, trustVersion)
	}
	for root, list := range content.Roots {
		for _, a := range list {
			if !digestForm().MatchString(a.Digest) || !filepath.IsAbs(root) {
				return trustFile{}, fmt.Errorf("the entry %q of %q is not an approval", a.Digest, root)
			}
		}
	}
	if content.Roots == nil {
		content.Roots = map[string][]approval{}
	}
	return content, nil
}

// broken says what to do about a file that cannot be used.
func (t TrustStore) broken(err error) error {
	return fmt.Errorf("reading the trust store %s: %w; nothing counts as approved until it is repaired: "+
		"restore it, or remove it and approve again", t.Path, err)
}
