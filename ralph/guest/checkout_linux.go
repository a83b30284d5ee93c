package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// scriptName is the program of a checkout.
	scriptName = "ralph.sh"
	// skillsFolder is what it brings for the agent.
	skillsFolder = "skills"
)

// checkout is another ralph than this one: the files of it that are installed.
type checkout struct {
	dir   string
	files []checkoutFile
}

type checkoutFile struct {
	path string // below the checkout
	mode fs.FileMode
	sum  [sha256.Size]byte
}

// readCheckout finds what there is to install in a checkout.
func readCheckout(dir string) (checkout, error) {
	info, err := os.Stat(filepath.Join(dir, scriptName))
	if err != nil || !info.Mode().IsRegular() {
		return checkout{}, fmt.Errorf("%s has no %s. Let [ralph] source name the folder of a ralph checkout", dir, scriptName)
	}
	c := checkout{dir: dir}
	for _, part := range []string{scriptName, "models.json", "lib", "hooks", skillsFolder} {
		if err := c.add(part, 0); err != nil {
			return checkout{}, fmt.Errorf("reading the ralph checkout %s: %w", dir, err)
		}
	}
	return c, nil
}

// add notes what lies at path, and below. Links stand for what they lead to.
func (c *checkout) add(path string, depth int) error {
	const deepest = 32
	full := filepath.Join(c.dir, path)
	info, err := os.Stat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist) && depth == 0:
		return nil // it need not have all parts
	case err != nil:
		return err
	case depth > deepest:
		return fmt.Errorf("%s is too deep. Does a link lead in a circle?", path)
	case info.IsDir():
		entries, err := os.ReadDir(full)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.Name() == ".git" {
				continue
			}
			if err := c.add(filepath.Join(path, e.Name()), depth+1); err != nil {
				return err
			}
		}
		return nil
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is neither a file nor a folder", path)
	}
	content, err := os.ReadFile(full)
	if err != nil {
		return err
	}
	c.files = append(c.files, checkoutFile{path, modeOf(path, info.Mode()), sha256.Sum256(content)})
	return nil
}

// modeOf keeps of a mode what matters here. What is mounted from a host may
// have lost that its programs are programs.
func modeOf(path string, mode fs.FileMode) fs.FileMode {
	if mode&0o111 != 0 || path == scriptName || path == filepath.Join("lib", "task") {
		return 0o755
	}
	return 0o644
}

// digest tells checkouts apart by paths, modes and contents.
func (c checkout) digest() string {
	h := sha256.New()
	for _, f := range c.files {
		_, _ = fmt.Fprintf(h, "%q %o %x\n", f.path, f.mode, f.sum)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// parts separates what the checkout runs from what it adds to the agent.
func (c checkout) parts() (program, skills checkout) {
	program.dir, skills.dir = c.dir, c.dir
	for _, f := range c.files {
		if strings.HasPrefix(f.path, skillsFolder+"/") {
			skills.files = append(skills.files, f)
		} else {
			program.files = append(program.files, f)
		}
	}
	return program, skills
}

// isAt tells whether the program of the checkout is installed in dir.
func (c checkout) isAt(dir string) bool {
	program, _ := c.parts()
	there, err := readCheckout(dir)
	return err == nil && there.digest() == program.digest()
}

// has tells whether there is a file at path.
func (c checkout) has(path string) bool {
	return slices.ContainsFunc(c.files, func(f checkoutFile) bool { return f.path == path })
}

// copyTo writes the files to a new folder.
func (c checkout) copyTo(dir string) error {
	for _, f := range c.files {
		to := filepath.Join(dir, f.path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		content, err := os.ReadFile(filepath.Join(c.dir, f.path))
		if err != nil {
			return err
		}
		if sha256.Sum256(content) != f.sum {
			return fmt.Errorf("%s has changed meanwhile. Try again", f.path)
		}
		if err := os.WriteFile(to, content, f.mode); err != nil {
			return err
		}
		if err := os.Chmod(to, f.mode); err != nil { // whatever the umask
			return err
		}
	}
	return nil
}
