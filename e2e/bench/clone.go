//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// cloned are the sizes of the histories that are cloned into sandboxes.
var cloned = []int64{10 << 20, 200 << 20, 1 << 30, 5 << 30}

// clones measures the first sandbox of large repositories, beside git clone.
func (b *bench) clones() error {
	return b.eachEngine(func() error {
		for _, size := range cloned {
			if err := b.cloneOnce(size); err != nil {
				return err
			}
		}
		return nil
	})
}

// cloneOnce makes the first sandbox of a repository with a history of that size.
func (b *bench) cloneOnce(size int64) error {
	b.repo = filepath.Join(b.dir, fmt.Sprintf("clone-%s-%d", b.engine, time.Now().UnixNano()))
	defer func() { _ = os.RemoveAll(b.repo) }()
	if err := b.newRepository(); err != nil {
		return err
	}
	if err := b.importHistory(size); err != nil {
		return err
	}
	copied := b.repo + "-copy"
	defer func() { _ = os.RemoveAll(copied) }()
	theirs, err := b.timeAll([][]string{{"git", "clone", "-q", "--no-local", b.repo, copied}})
	if err != nil {
		return err
	}
	theirLargest := b.largest
	ours, err := b.timeAll([][]string{b.ralph("shell", "--", "true")})
	if err != nil {
		return err
	}
	largest := b.largest
	name, err := b.output("ps", "--format", "{{.Names}}", "--filter", "label=io.github.docker-ralph.worktree="+b.repo)
	if err != nil {
		return err
	}
	fmt.Printf("%-7s %-32s %s, git clone --no-local %s, ratio %.2f; largest process %d MiB, git clone %d MiB\n", b.engine, fmt.Sprintf("first sandbox of %d MiB", size>>20),
		ms(ours), ms(theirs), float64(ours)/float64(theirs), largest>>20, theirLargest>>20)
	_, err = b.timeAll([][]string{removal(name)})
	return err
}
