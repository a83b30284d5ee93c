// Package registry is a fake of an image registry. Engines fetch images without
// TLS from their own machine alone, so tests run it in an engine's network.
package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"time"
)

// User and Password are what the registry asks for.
const (
	User     = "me"
	Password = "pw"
)

// Serve serves one image, with the tag 1 under every name, and with one file in
// it. It is for arch, as "amd64". The registry's address is the first line that
// is written to out. It ends with an error only.
func Serve(ctx context.Context, out io.Writer, arch string) error {
	blobs, err := image(arch)
	if err != nil {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return err
	}
	server := http.Server{Handler: blobs, ReadHeaderTimeout: time.Minute}
	return server.Serve(listener)
}

// store is what can be fetched, by digest or tag.
type store map[string][]byte

const docker = "application/vnd.docker."

// ServeHTTP implements [http.Handler].
func (s store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if user, password, _ := r.BasicAuth(); user != User || password != Password {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"who are you"}]}`, http.StatusUnauthorized)
		return
	}
	blob, found := s[path.Base(r.URL.Path)]
	switch {
	case r.URL.Path == "/v2/":
	case !found:
		http.NotFound(w, r)
	default:
		if strings.Contains(r.URL.Path, "/manifests/") {
			w.Header().Set("Content-Type", docker+"distribution.manifest.v2+json")
			w.Header().Set("Docker-Content-Digest", digest(blob))
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(blob))
	}
}

// image makes the parts of the image.
func image(arch string) (store, error) {
	var plain, layer bytes.Buffer
	archive := tar.NewWriter(&plain)
	err := archive.WriteHeader(&tar.Header{Name: "hello", Mode: 0o644, Size: 5, Typeflag: tar.TypeReg})
	if err == nil {
		_, err = archive.Write([]byte("world"))
	}
	zipper := gzip.NewWriter(&layer)
	if err := errors.Join(err, archive.Close()); err != nil {
		return nil, err
	}
	_, err = zipper.Write(plain.Bytes())
	if err := errors.Join(err, zipper.Close()); err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": arch, "os": "linux", "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(plain.Bytes())}},
	})
	if err != nil {
		return nil, err
	}
	describe := func(kind string, blob []byte) map[string]any {
		return map[string]any{"mediaType": docker + kind, "size": len(blob), "digest": digest(blob)}
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": docker + "distribution.manifest.v2+json",
		"config": describe("container.image.v1+json", config),
		"layers": []any{describe("image.rootfs.diff.tar.gzip", layer.Bytes())},
	})
	return store{digest(config): config, digest(layer.Bytes()): layer.Bytes(), digest(manifest): manifest, "1": manifest}, err
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
