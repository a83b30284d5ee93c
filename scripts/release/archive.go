package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name, source string
	mode         fs.FileMode
}

// archive writes docker-ralph-PLATFORM.tar.gz, or .zip for Windows.
func (r *release) archive(platform string) error {
	base, plugin := "docker-ralph-"+platform, r.plugin(platform)
	extension, write := ".tar.gz", writeTar
	if filepath.Ext(plugin) == ".exe" {
		extension, write = ".zip", writeZip
	}
	entries := []entry{
		{"docker-ralph" + filepath.Ext(plugin), plugin, 0o755},
		{"LICENSE", "LICENSE", 0o644},
		{noticesName, r.notices(platform), 0o644},
		{"README.md", "README.md", 0o644},
		{"install.sh", "scripts/install.sh", 0o755},
	}
	err := fs.WalkDir(os.DirFS(r.share), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			entries = append(entries, entry{name, filepath.Join(r.share, name), 0o644})
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range entries {
		entries[i].name = base + "/" + entries[i].name
	}
	file, err := os.Create(filepath.Join(r.dist, base+extension))
	if err != nil {
		return err
	}
	return errors.Join(write(file, r.date, entries), file.Close())
}

func writeTar(w io.Writer, date time.Time, entries []entry) error {
	zipped, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := tar.NewWriter(zipped)
	for _, e := range entries {
		content, err := os.ReadFile(e.source)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: e.name, Mode: int64(e.mode), Size: int64(len(content)), ModTime: date}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		if _, err := out.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), zipped.Close())
}

func writeZip(w io.Writer, date time.Time, entries []entry) error {
	out := zip.NewWriter(w)
	for _, e := range entries {
		content, err := os.ReadFile(e.source)
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: date}
		header.SetMode(e.mode)
		file, err := out.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := file.Write(content); err != nil {
			return err
		}
	}
	return out.Close()
}
