package container_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	apicontainer "github.com/moby/moby/api/types/container"
	imagetypes "github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/icmd"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/userimage"
)

// hardened prints what an agent can do to its own container.
const hardened = `exec 2>&1
for f in /x /etc/x /usr/bin/x /opt/x /var/tmp/x; do (: >$f) 2>/dev/null && echo "writes $f"; done
for f in /tmp/x "$HOME/x" ./x; do (: >$f) 2>/dev/null || echo "does not write $f"; done
printf '#!/bin/sh\necho runs\n' >/tmp/run && chmod +x /tmp/run && /tmp/run
id -un; id -gn; stat -c %a /tmp; ulimit -c; ulimit -Hc
perl -e 'print "socket ", socket(my $s, $_->[1], $_->[2], 0) ? "of $_->[0] opens\n" : "of $_->[0]: no\n" for ["vsock", 40, 1], ["alg", 38, 5], ["packet", 17, 3]'
perl -e 'print syscall(425, 1, 0) < 0 ? "io_uring: $!\n" : "io_uring works\n"'
readlink /proc/self/ns/cgroup >/dev/null; tail -1 /proc/self/cgroup
`

// foreign makes system calls of the other architectures of an amd64 machine: by a
// program for i386, and as one for x32.
const foreign = `./i386 2>/dev/null; echo "i386 $?"; perl -e 'syscall(0x40000000 + 39)' 2>/dev/null; echo "x32 $?"`

func TestReadOnlySandbox(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s := newSuite(t, e)
		spec := s.NewSpec(t)
		spec.ReadOnly = true
		sb := s.UpWith(t, spec)
		out := sh(t, s.Driver, sb, spec, hardened)
		for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
			assert.Check(t, !strings.HasPrefix(line, "writes") && !strings.HasPrefix(line, "does not") && !strings.Contains(line, "opens"), line)
		}
		assert.Check(t, is.Contains(out, "\nagent\nagent\n1777\n0\n0\n"), "%s", out)
		assert.Check(t, strings.HasPrefix(out, "runs\n"), out)
		assert.Check(t, is.Contains(out, "io_uring: Operation not permitted"))
		assert.Check(t, is.Contains(out, ":/\n"), "it sees its own control group alone: %s", out)
		if runtime.GOARCH == "amd64" {
			program := filepath.Join(spec.Root, "i386")
			assert.NilError(t, os.WriteFile(program, i386Program(), 0o755))
			said := sh(t, s.Driver, sb, spec, foreign)
			assert.Check(t, strings.HasSuffix(said, "x32 159\n"), "it is killed: %s", said)
			if icmd.RunCommand(program).ExitCode == 42 { // some kernels run no programs for i386
				assert.Check(t, strings.HasPrefix(said, "i386 42\n"), said)
			}
		}

		res, err := e.Client(t).ContainerInspect(t.Context(), sb.ID, client.ContainerInspectOptions{})
		assert.NilError(t, err)
		assert.Check(t, res.Container.HostConfig.ReadonlyRootfs)
		assert.Check(t, is.Equal(res.Container.HostConfig.LogConfig.Config["max-size"], "10m"))

		// The image has the user's home already, so no sandbox has to be given one.
		made, err := e.Client(t).ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &apicontainer.Config{Image: res.Container.Image}})
		assert.NilError(t, err)
		t.Cleanup(func() { remove(t, e.Client(t), made.ID) })
		home, err := e.Client(t).CopyFromContainer(t.Context(), made.ID, client.CopyFromContainerOptions{SourcePath: userimage.Home})
		assert.NilError(t, err)
		defer func() { _ = home.Content.Close() }()
		for archive := tar.NewReader(home.Content); ; {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			assert.NilError(t, err)
			assert.Check(t, is.Equal(fmt.Sprintf("%d:%d", header.Uid, header.Gid), sb.User), header.Name)
		}

		// Another one, for the same user, needs no new image.
		again := s.NewSpec(t)
		again.ReadOnly, again.Tmp, again.Shm = true, 3<<20, 2<<20
		other := s.UpWith(t, again)
		assert.Equal(t, sh(t, s.Driver, other, again, "df -k /tmp /dev/shm | awk 'NR>1 {print $2}'"), "3072\n2048\n")
		second, err := e.Client(t).ContainerInspect(t.Context(), other.ID, client.ContainerInspectOptions{})
		assert.NilError(t, err)
		assert.Equal(t, second.Container.Image, res.Container.Image)
	})
}

// i386Program ends with 42, as a program for i386.
func i386Program() []byte {
	const base, headers = 0x08048000, 52 + 32
	code := []byte{0xb8, 1, 0, 0, 0, 0xbb, 42, 0, 0, 0, 0xcd, 0x80} // exit(42)
	var b bytes.Buffer
	for _, part := range []any{
		elf.Header32{
			Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS32), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
			Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_386), Version: uint32(elf.EV_CURRENT),
			Entry: base + headers, Phoff: 52, Ehsize: 52, Phentsize: 32, Phnum: 1,
		},
		elf.Prog32{
			Type: uint32(elf.PT_LOAD), Vaddr: base, Paddr: base, Align: 0x1000, Flags: uint32(elf.PF_R | elf.PF_X),
			Filesz: uint32(headers + len(code)), Memsz: uint32(headers + len(code)),
		},
		code,
	} {
		_ = binary.Write(&b, binary.LittleEndian, part) // a buffer takes all
	}
	return b.Bytes()
}

// Users of one engine know nothing of each other, and name the same user in
// the same image.
func TestConcurrentUserMapping(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		const many = 4
		image := newImage(t, e)
		errs := make(chan error, many)
		for range many {
			s := newSuite(t, e)
			spec := s.NewSpec(t)
			spec.ReadOnly, spec.Image = true, image
			go func() {
				sb, err := s.Driver.Create(t.Context(), spec)
				if err == nil {
					err = s.Driver.Remove(t.Context(), sb)
				}
				errs <- err
			}()
		}
		for range many {
			assert.Check(t, <-errs)
		}
	})
}

// The tag of an image with a user has a part of the digest of its origin only.
func TestUserMappingOfAnotherImageIsNotUsed(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		api, image, hostile := e.Client(t), newImage(t, e), newImage(t, e)
		tag := fmt.Sprintf("docker-ralph/user-mapped:%.12s-4242-4242-home", strings.TrimPrefix(image, "sha256:"))
		_, err := api.ImageTag(t.Context(), client.ImageTagOptions{Source: hostile, Target: tag})
		assert.NilError(t, err)

		users := userimage.Mapper{API: api, StateDir: t.TempDir()}
		mapped, err := users.Map(t.Context(), image, "4242:4242")
		assert.NilError(t, err)
		assert.Assert(t, mapped != hostile)
		now, err := api.ImageInspect(t.Context(), tag)
		assert.NilError(t, err)
		assert.Equal(t, now.ID, mapped)
		assert.Equal(t, now.Config.Labels["io.github.docker-ralph.origin"], image)
		again, err := users.Map(t.Context(), image, "4242:4242")
		assert.NilError(t, err)
		assert.Equal(t, again, mapped)
	})
}

// newImage creates an image of this test only.
func newImage(t *testing.T, e engines.Engine) string {
	t.Helper()
	api := e.Client(t)
	made, err := api.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &apicontainer.Config{Image: engines.BaseImage()}})
	assert.NilError(t, err)
	t.Cleanup(func() { remove(t, api, made.ID) })
	image, err := api.ContainerCommit(t.Context(), made.ID, client.ContainerCommitOptions{Comment: rand.Text()})
	assert.NilError(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		list, err := api.ImageList(ctx, client.ImageListOptions{All: true})
		assert.Check(t, err)
		made := slices.DeleteFunc(list.Items, func(i imagetypes.Summary) bool {
			return i.ParentID != image.ID && !slices.ContainsFunc(i.RepoTags, func(tag string) bool { return strings.Contains(tag, "user-mapped:"+image.ID[7:19]) })
		})
		for _, mapped := range append(made, imagetypes.Summary{ID: image.ID}) {
			_, err := api.ImageRemove(ctx, mapped.ID, client.ImageRemoveOptions{Force: true})
			assert.Check(t, err)
		}
	})
	return image.ID
}

func TestSymlinkedWorktreesAreRejected(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("work trees are not mounted there")
	}
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s := newSuite(t, e)
		spec := s.NewSpec(t)
		sb, err := s.Driver.Create(t.Context(), spec)
		assert.NilError(t, err)
		t.Cleanup(func() { remove(t, e.Client(t), sb.ID) })
		// It is replaced between the look at it and the mounting.
		assert.NilError(t, os.Rename(spec.Root, spec.Root+".away"))
		assert.NilError(t, os.Symlink("/etc", spec.Root))
		t.Cleanup(func() { _ = os.Remove(spec.Root) })
		if err = s.Driver.Start(t.Context(), sb); err == nil {
			spec.Probe = ""
			err = s.Driver.Prepare(t.Context(), sb, spec)
		}
		assert.ErrorContains(t, err, "symbolic link")
		var out bytes.Buffer
		_, err = s.Driver.Exec(t.Context(), sb, lifecycle.Process{Args: []string{"true"}, Dir: filepath.Dir(spec.Root), Stdout: &out, Stderr: &out})
		assert.ErrorIs(t, err, lifecycle.ErrNotPrepared)
	})
}
