package programs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/wire"
)

// loadImage loads an image that contains one program, without a registry.
func (i *Installer) loadImage(ctx context.Context, tag, arch, name string, program []byte) error {
	image, err := scratchImage(tag, arch, name, program)
	if err != nil {
		return err
	}
	res, err := i.API.ImageLoad(ctx, bytes.NewReader(image), client.ImageLoadWithQuiet(true))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res)
	return errors.Join(err, res.Close())
}

// scratchImage returns the image in the format of docker save.
func scratchImage(tag, arch, name string, program []byte) ([]byte, error) {
	var layer bytes.Buffer
	sockets := engine.File{Name: strings.TrimPrefix(wire.ProxyDir, "/") + "/", Mode: 0o755, UID: ProxyUID}
	if err := engine.WriteTar(&layer, engine.File{Name: name, Content: program, Mode: 0o755}, sockets); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(layer.Bytes())
	config, err := json.Marshal(map[string]any{
		"architecture": arch,
		"os":           "linux",
		"config":       map[string]any{"Labels": map[string]string{engine.LabelCreatedBy: engine.CreatedBy}},
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
	err = engine.WriteTar(&image, engine.File{Name: "config.json", Content: config, Mode: 0o644}, engine.File{Name: "layer.tar", Content: layer.Bytes(), Mode: 0o644}, engine.File{Name: "manifest.json", Content: manifest, Mode: 0o644})
	return image.Bytes(), err
}
