// Package secretscan scans a worktree for secrets with gitleaks, before an agent sees it. A
// scan finds known formats only.
package secretscan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// Image is the image of gitleaks.
const Image = "ghcr.io/gitleaks/gitleaks:v8.30.1"

// API is the part of the Engine API that a scan uses.
type API interface {
	ContainerCreate(context.Context, client.ContainerCreateOptions) (client.ContainerCreateResult, error)
	ContainerLogs(context.Context, string, client.ContainerLogsOptions) (client.ContainerLogsResult, error)
	ContainerRemove(context.Context, string, client.ContainerRemoveOptions) (client.ContainerRemoveResult, error)
	ContainerStart(context.Context, string, client.ContainerStartOptions) (client.ContainerStartResult, error)
	ContainerWait(context.Context, string, client.ContainerWaitOptions) client.ContainerWaitResult
	CopyToContainer(context.Context, string, client.CopyToContainerOptions) (client.CopyToContainerResult, error)
	ImageInspect(context.Context, string, ...client.ImageInspectOption) (client.ImageInspectResult, error)
}

// Scanner scans on an engine.
type Scanner struct {
	API API
	// Pull fetches an image that the engine does not have.
	Pull func(ctx context.Context, image string) error
	// User is the UID:GID that can read the worktree.
	User string
	// Copy copies the worktree to an engine that cannot mount it.
	Copy bool
}

// Finding is the place of a possible secret, without the secret.
type Finding struct {
	File string // below the worktree, with slashes
	Line int    // from 1
	Rule string // gitleaks' name for the kind of credential
}

// MissingError means that there is no scanner.
type MissingError struct{ Err error }

func (e *MissingError) Error() string {
	return fmt.Sprintf("the scanner %s is not on the engine and cannot be pulled: %v", Image, e.Err)
}

func (e *MissingError) Unwrap() error { return e.Err }

// target is the path of the worktree in the container. The scanner scans its parent, so that
// it ignores the exceptions of the repository.
const (
	scanned = "/scan"
	target  = scanned + "/tree"
)

// found is the exit code of a scan with findings.
const found = 9

// rules are the default ones. Otherwise gitleaks would use those of the repository.
const rules = "[extend]\nuseDefault = true\n"

// Tree scans a worktree. The findings are sorted by file. The error is a [MissingError] if
// there is no scanner.
func (s Scanner) Tree(ctx context.Context, root string) (_ []Finding, err error) {
	if err := s.ensureImage(ctx); err != nil {
		return nil, err
	}
	created, err := s.API.ContainerCreate(ctx, s.container(root))
	if err != nil {
		return nil, fmt.Errorf("scanning %s for secrets: %w", root, err)
	}
	defer func() {
		_, rmErr := s.API.ContainerRemove(context.WithoutCancel(ctx), created.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		err = errors.Join(err, rmErr)
	}()
	if s.Copy {
		err = s.copyTree(ctx, created.ID, root)
	}
	var code int64
	if err == nil {
		code, err = s.run(ctx, created.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("scanning %s for secrets: %w", root, err)
	}
	report, stderr, err := s.output(ctx, created.ID)
	if err != nil {
		return nil, fmt.Errorf("scanning %s for secrets: %w", root, err)
	}
	if code != 0 && code != found {
		return nil, fmt.Errorf("scanning %s for secrets: gitleaks failed (exit code %d): %s", root, code, strings.TrimSpace(stderr))
	}
	findings, err := parseReport([]byte(report))
	if err == nil && code == found && len(findings) == 0 {
		err = errors.New("gitleaks reported no findings")
	}
	if err != nil {
		return nil, fmt.Errorf("scanning %s for secrets: %w", root, err)
	}
	return findings, nil
}

func (s Scanner) ensureImage(ctx context.Context) error {
	_, err := s.API.ImageInspect(ctx, Image)
	if errdefs.IsNotFound(err) {
		if err = s.Pull(ctx, Image); err != nil && ctx.Err() == nil {
			return &MissingError{Err: err}
		}
	}
	if err != nil {
		return fmt.Errorf("inspecting the scanner %s: %w", Image, err)
	}
	return nil
}

// container has only the worktree, read-only or a copy, and no network.
func (s Scanner) container(root string) client.ContainerCreateOptions {
	pids := int64(256)
	tree := mount.Mount{Type: mount.TypeBind, Source: root, Target: target, ReadOnly: true}
	if s.Copy {
		tree = mount.Mount{Type: mount.TypeVolume, Target: target}
	}
	return client.ContainerCreateOptions{
		Config: &container.Config{
			Image: Image,
			User:  s.User,
			Entrypoint: []string{
				"gitleaks", "dir", "--no-banner", "--no-color", "--redact=100", fmt.Sprintf("--exit-code=%d", found),
				"--ignore-gitleaks-allow", "--report-format=json", "--report-path=-", scanned,
			},
			Env:             []string{"GITLEAKS_CONFIG_TOML=" + rules},
			WorkingDir:      "/",
			Labels:          map[string]string{"io.github.docker-ralph.created-by": "docker-ralph"},
			NetworkDisabled: true,
		},
		HostConfig: &container.HostConfig{
			NetworkMode:    "none",
			ReadonlyRootfs: true,
			CapDrop:        []string{"ALL"},
			SecurityOpt:    []string{"no-new-privileges"},
			LogConfig:      container.LogConfig{Type: "json-file"}, // readable with any default of the engine
			Resources:      container.Resources{PidsLimit: &pids},
			Mounts:         []mount.Mount{tree},
		},
	}
}

func (s Scanner) run(ctx context.Context, id string) (code int64, _ error) {
	wait := s.API.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := s.API.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		return 0, err
	}
	select {
	case err := <-wait.Error:
		return 0, err
	case end := <-wait.Result:
		return end.StatusCode, nil
	}
}

// output returns the output of the scanner.
func (s Scanner) output(ctx context.Context, id string) (stdout, stderr string, err error) {
	logs, err := s.API.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		return "", "", err
	}
	defer func() { _ = logs.Close() }()
	var out, errOut strings.Builder
	if _, err := stdcopy.StdCopy(&out, &errOut, io.LimitReader(logs, reportMax)); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", "", err
	}
	return out.String(), errOut.String(), nil
}

// reportMax limits the report, in bytes. The rest is discarded.
const reportMax = 64 << 20

// parseReport parses the findings of gitleaks' report, which may be truncated.
func parseReport(report []byte) ([]Finding, error) {
	decoder := json.NewDecoder(strings.NewReader(string(report)))
	if start, err := decoder.Token(); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil || start != json.Delim('[') {
		return nil, fmt.Errorf("parsing the report of gitleaks: %.80q", report)
	}
	var findings []Finding
	defer func() {
		slices.SortFunc(findings, func(a, b Finding) int {
			return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), strings.Compare(a.Rule, b.Rule))
		})
	}()
	for decoder.More() {
		var entry struct {
			RuleID, File string
			StartLine    int
		}
		switch err := decoder.Decode(&entry); {
		case errors.Is(err, io.ErrUnexpectedEOF) && len(findings) > 0:
			return findings, nil // truncated
		case err != nil:
			return nil, fmt.Errorf("parsing the report of gitleaks: %w", err)
		}
		file := strings.TrimPrefix(path.Clean("/"+entry.File), target+"/")
		findings = append(findings, Finding{File: file, Line: entry.StartLine, Rule: entry.RuleID})
	}
	return findings, nil
}
