package container

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/wire"
)

// loadImage loads an image that contains one program, without a registry.
func (d *Driver) loadImage(ctx context.Context, tag, arch, name string, program []byte) error {
	image, err := scratchImage(tag, arch, name, program)
	if err != nil {
		return err
	}
	res, err := d.API.ImageLoad(ctx, bytes.NewReader(image), client.ImageLoadWithQuiet(true))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res)
	return errors.Join(err, res.Close())
}

// scratchImage returns the image in the format of docker save.
func scratchImage(tag, arch, name string, program []byte) ([]byte, error) {
	var layer bytes.Buffer
	sockets := tarFile{name: strings.TrimPrefix(wire.ProxyDir, "/") + "/", mode: 0o755, uid: nobodyUID} // for the proxy's user
	if err := writeTar(&layer, tarFile{name: name, content: program, mode: 0o755}, sockets); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(layer.Bytes())
	config, err := json.Marshal(map[string]any{
		"architecture": arch,
		"os":           "linux",
		"config":       map[string]any{"Labels": map[string]string{labelCreatedBy: createdBy}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{tag}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return nil, err
	}
	var image bytes.Buffer
	err = writeTar(&image, tarFile{name: "config.json", content: config, mode: 0o644}, tarFile{name: "layer.tar", content: layer.Bytes(), mode: 0o644}, tarFile{name: "manifest.json", content: manifest, mode: 0o644})
	return image.Bytes(), err
}

type tarFile struct {
	name    string
	content []byte
	mode    int64
	uid     int // and GID
}

func writeTar(w io.Writer, files ...tarFile) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		if err := t.WriteHeader(&tar.Header{Name: f.name, Size: int64(len(f.content)), Mode: f.mode, Uid: f.uid, Gid: f.uid, Format: tar.FormatPAX}); err != nil {
			return err
		}
		if _, err := t.Write(f.content); err != nil {
			return err
		}
	}
	return t.Close()
}
