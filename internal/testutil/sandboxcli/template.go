package sandboxcli

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/client"
)

// loaded is a template in the store of sbx.
type loaded struct {
	Reference string    `json:"reference"` // normalised, with a tag; "" if the archive had none
	Digest    string    `json:"digest"`    // hex, of the image's configuration
	Image     string    `json:"image"`     // what the engine calls it, in container mode
	CreatedAt time.Time `json:"created_at"`
	Size      int64     `json:"size"`
}

const templatesFile = "templates.json"

func (c *call) templates() ([]loaded, error) {
	var all []loaded
	_, err := c.store.readJSON(&all, templatesFile)
	return all, err
}

// changeTemplates replaces the list of templates.
func (c *call) changeTemplates(change func([]loaded) []loaded) error {
	unlock, err := c.store.lock()
	if err != nil {
		return err
	}
	defer unlock()
	all, err := c.templates()
	if err != nil {
		return err
	}
	return c.store.writeJSON(change(all), templatesFile)
}

// normal is a reference's full form (CODE S23: bare names are shown as
// docker.io/library/x).
func normal(name string) (string, error) {
	ref, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return "", err
	}
	return reference.TagNameOnly(ref).String(), nil
}

// resolveTemplate finds the image of an order.
func (c *call) resolveTemplate(o order) (string, error) {
	name := o.template
	if name == "" {
		name = "docker/sandbox-templates:" + o.agent // contract 9.3; sbx's own have "-docker" behind
		if c.cli == sbx {
			name += "-docker"
		}
	}
	full, err := normal(name)
	if err != nil {
		return "", c.fail("invalid template %q: %v", name, err)
	}
	known, err := c.templates()
	if err != nil {
		return "", err
	}
	for _, t := range known {
		if t.Reference == full {
			if c.settings.Mode == ModeContainer {
				return t.Image, nil
			}
			return name, nil
		}
	}
	if o.pull == "never" && o.template != "" {
		return "", c.fail("template %q is not in the image store, and the pull policy is never", name) // ?
	}
	if c.cli == sbx && o.template != "" && name != full { // what is pulled has to be named in full (DOC S5)
		return "", c.fail("pulling template %q: the name is not fully qualified", name) // ?
	}
	if c.settings.Mode != ModeContainer {
		return name, nil
	}
	return c.engineImage(name, full)
}

func (c *call) engineImage(name, full string) (string, error) {
	api, err := c.engine()
	if err != nil {
		return "", err
	}
	defer func() { _ = api.Close() }()
	found, err := api.ImageInspect(c.ctx, name)
	if err == nil {
		return found.ID, nil
	}
	if !errdefs.IsNotFound(err) {
		return "", fmt.Errorf("looking for the template %q: %w", name, err)
	}
	if strings.HasPrefix(full, "docker.io/docker/sandbox-templates:") && c.settings.Template != "" {
		return c.settings.Template, nil
	}
	return "", c.fail("pulling template %q: manifest unknown", name) // ?
}

// template does what templates need (DOC S3, CODE S23).
func (c *call) template(args []string) (int, error) {
	verb, args := first(args)
	switch verb {
	case "load":
		return c.templateLoad(args)
	case "ls", "list":
		return c.templateLs(args)
	case "rm":
		return c.templateRm(args)
	case "save":
		return c.save("template save", args)
	}
	return 0, c.fail("unknown command %q for \"sbx template\"", verb)
}

// first takes the first of some arguments.
func first(args []string) (string, []string) {
	if len(args) == 0 {
		return "", nil
	}
	return args[0], args[1:]
}

func (c *call) templateLoad(args []string) (int, error) {
	args, err := c.parse(c.flags("template load"), args)
	if err != nil {
		return 0, err
	}
	if err := c.count("template load", args, 1, 1); err != nil {
		return 0, err
	}
	images, err := readArchive(args[0])
	if err != nil {
		return 0, c.fail("loading %s: %v", args[0], err) // ?
	}
	if c.settings.Mode == ModeContainer {
		if err := c.loadIntoEngine(args[0], images); err != nil {
			return 0, err
		}
	}
	if err := c.register(images); err != nil {
		return 0, err
	}
	for _, i := range images {
		c.print("Loaded image: %s\n", i.Reference) // ?
	}
	return 0, nil
}

func (c *call) register(images []loaded) error {
	return c.changeTemplates(func(all []loaded) []loaded {
		for _, i := range images {
			all = slices.DeleteFunc(all, func(old loaded) bool {
				return old.Reference == i.Reference && (i.Reference != "" || old.Digest == i.Digest)
			})
		}
		return append(all, images...)
	})
}

// readArchive lists the images in an archive of "docker image save".
func readArchive(file string) ([]loaded, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	archive := tar.NewReader(f)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it has no manifest.json: is it from \"docker image save\"?")
		}
		if err != nil {
			return nil, err
		}
		if path.Clean(header.Name) == "manifest.json" {
			return readManifest(archive, info.Size())
		}
	}
}

func readManifest(r io.Reader, size int64) ([]loaded, error) {
	var manifest []struct {
		Config   string
		RepoTags []string
	}
	if err := json.NewDecoder(r).Decode(&manifest); err != nil {
		return nil, fmt.Errorf("reading manifest.json: %w", err)
	}
	var images []loaded
	for _, m := range manifest {
		digest := strings.TrimSuffix(path.Base(m.Config), ".json")
		if len(digest) != 64 {
			return nil, fmt.Errorf("manifest.json has an odd configuration %q", m.Config)
		}
		if len(m.RepoTags) == 0 {
			m.RepoTags = []string{""}
		}
		for _, tag := range m.RepoTags {
			full := ""
			if tag != "" {
				var err error
				if full, err = normal(tag); err != nil {
					return nil, err
				}
			}
			images = append(images, loaded{Reference: full, Digest: digest, CreatedAt: time.Now().UTC(), Size: size})
		}
	}
	return images, nil
}

// loadIntoEngine loads an archive and records the names of its images on the engine.
func (c *call) loadIntoEngine(file string, images []loaded) error {
	api, err := c.engine()
	if err != nil {
		return err
	}
	defer func() { _ = api.Close() }()
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	res, err := api.ImageLoad(c.ctx, f, client.ImageLoadWithQuiet(true))
	if err != nil {
		return fmt.Errorf("loading %s: %w", file, err)
	}
	defer func() { _ = res.Close() }()
	if _, err := io.Copy(io.Discard, res); err != nil {
		return fmt.Errorf("loading %s: %w", file, err)
	}
	for i := range images {
		name := images[i].Reference
		if name == "" {
			name = "sha256:" + images[i].Digest
		}
		found, err := api.ImageInspect(c.ctx, name)
		if err != nil {
			return fmt.Errorf("looking at what was loaded from %s: %w", file, err)
		}
		images[i].Image = found.ID
	}
	return nil
}

// templateLs lists templates in the shape of CODE S23.
func (c *call) templateLs(args []string) (int, error) {
	fs := c.flags("template ls")
	asJSON := fs.Bool("json", false, "")
	if _, err := c.parse(fs, args); err != nil {
		return 0, err
	}
	all, err := c.templates()
	if err != nil {
		return 0, err
	}
	images := []any{}
	for _, t := range all {
		repository, tag := "<none>", "<none>" // ?
		if i := strings.LastIndex(t.Reference, ":"); i > 0 {
			repository, tag = t.Reference[:i], t.Reference[i+1:]
		}
		if !*asJSON {
			c.print("%s  %s:%s\n", t.Digest[:12], repository, tag) // ?
		}
		images = append(images, map[string]any{
			"id": t.Digest[:12], "repository": repository, "tag": tag, "created_at": t.CreatedAt, "size": t.Size,
		})
	}
	if !*asJSON {
		return 0, nil
	}
	return 0, c.printJSON(map[string]any{"images": images})
}

// templateRm forgets templates. The engine keeps them, as others may use them.
func (c *call) templateRm(args []string) (int, error) {
	fs := c.flags("template rm")
	force := fs.BoolP("force", "f", false, "")
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if err := c.count("template rm", args, 1, 1); err != nil {
		return 0, err
	}
	if !*force { // MEAS v0.45.1: needed without a terminal
		if in, _ := c.terminals(); !in {
			return 0, c.fail("use --force to remove a template without a terminal") // ?
		}
		if err := c.confirm(fmt.Sprintf("Remove template '%s'? (y/N): ", args[0]), "sbx template rm --force "+args[0]); err != nil {
			return 0, err
		}
	}
	full, err := normal(args[0])
	if err != nil {
		full = args[0]
	}
	removed := false
	err = c.changeTemplates(func(all []loaded) []loaded {
		return slices.DeleteFunc(all, func(t loaded) bool {
			hit := t.Reference == full || len(args[0]) >= 12 && strings.HasPrefix(t.Digest, args[0])
			removed = removed || hit
			return hit
		})
	})
	if err == nil && !removed {
		err = c.fail("template '%s' not found", args[0]) // ?
	}
	return 0, err
}
