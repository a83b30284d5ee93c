//go:build unix

package main

import (
	"fmt"
	"strings"
	"time"
)

// Goals of what is done again and again.
const (
	listTakes  = 150 * time.Millisecond
	listed     = 100
	againRatio = 1.3
)

// sessions measures the list of many sandboxes, and coming back to one that was
// stopped.
func (b *bench) sessions() error {
	return b.eachEngine(func() error {
		if err := b.list(); err != nil {
			return err
		}
		return b.again()
	})
}

// many makes containers that are listed as sandboxes: as many as $1, of the work
// trees below $2, from the image $3, by its ID as sandboxes are.
const many = `image=$(docker image inspect --format '{{.Id}}' "$3") || exit; for i in $(seq "$1"); do docker create --name "ralph-bench-list-$i" \
	--label io.github.docker-ralph.created-by=docker-ralph --label "io.github.docker-ralph.sandbox=ralph-bench-list-$i" \
	--label io.github.docker-ralph.scope.repo=bench/list --label "io.github.docker-ralph.scope.branch=b$i" \
	--label "io.github.docker-ralph.root=$2" --label "io.github.docker-ralph.worktree=$2/.worktrees/b$i" "$image" true; done`

const removeMany = `docker ps -aq --filter name=ralph-bench-list- | xargs -r docker rm -f`

// list measures the list of many sandboxes.
func (b *bench) list() error {
	remove := []string{"sh", "-c", removeMany}
	defer func() { _, _ = b.timeAll([][]string{remove}) }()
	if _, err := b.timeAll([][]string{remove, {"sh", "-c", many, "sh", fmt.Sprint(listed), b.repo, b.base}}); err != nil {
		return err
	}
	names, err := b.lines("docker", "ralph", "ls", "-q")
	if err != nil {
		return err
	}
	if names != listed {
		return fmt.Errorf("%d sandboxes are listed, not %d", names, listed)
	}
	var all []time.Duration
	for range runs {
		d, err := b.time("docker", "ralph", "ls")
		if err != nil {
			return err
		}
		all = append(all, d)
	}
	fmt.Printf("%-7s %-32s %s (goal: at most %s)\n", b.engine, fmt.Sprintf("ls with %d sandboxes", listed), ms(median(all)), ms(listTakes))
	return nil
}

// lines counts the lines that a command prints.
func (b *bench) lines(name string, args ...string) (int, error) {
	out, err := b.said(name, args...)
	return strings.Count(out, "\n"), err
}

// again measures a dispatch into a sandbox that was stopped, as users stop it.
func (b *bench) again() error {
	name, peer, err := b.create()
	if err != nil {
		return err
	}
	defer func() { _, _ = b.timeAll([][]string{removal(name)}) }()
	return b.compare("dispatch into a stopped sandbox", "docker start and exec", againRatio, creates,
		[][]string{b.enter()},
		[][]string{{"docker", "start", name}, peer}, []string{"docker", "ralph", "stop", name})
}
