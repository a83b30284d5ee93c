package projectimage

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func TestPlan(t *testing.T) {
	dockerfile := func(text string) *Project {
		return &Project{Root: "/src/shop", File: "/src/shop/.agent-loop/Dockerfile.sandbox", Dockerfile: []byte(text)}
	}
	now := Request{Agent: "shell", Base: "debian:2", Project: dockerfile("new")}
	tags := func(req Request) []string {
		needs, err := Needs(req)
		assert.NilError(t, err)
		return needs
	}
	agent := func(base, baseID string) Stored {
		req := Request{Agent: "shell", Base: base}
		return Stored{
			ID: "sha256:a" + base, Kind: kindAgent, Agent: "shell", Base: base, BaseID: baseID, Tags: tags(req), Digest: specOfTest(t, req).labels[labelDigest],
		}
	}
	layer := func(req Request, age time.Duration) Stored {
		needs := tags(req)
		return Stored{
			ID: "sha256:l", Kind: kindProject, Agent: req.Agent, Project: "shop", Tags: needs[1:],
			Base: needs[0], BaseID: "sha256:adebian:2", Digest: specOfTest(t, req).labels[labelDigest], Created: time.Now().Add(-age),
		}
	}
	with := func(change func(*Request)) Request {
		req := now
		change(&req)
		return req
	}
	alone := with(func(r *Request) { r.Project = nil })
	oldBase := with(func(r *Request) { r.Base = "debian:1" })
	oldFile := with(func(r *Request) { r.Project = dockerfile("old") })
	oldBoth := with(func(r *Request) { r.Base, r.Project = "debian:1", dockerfile("old") })
	copies := with(func(r *Request) { r.Project = dockerfile("new"); r.Project.files = []*contextPart{{path: "a"}} })
	packages := with(func(r *Request) {
		r.Project = &Project{Root: "/src/shop", File: "/src/shop/.agent-loop/dependencies", Dockerfile: []byte("x"), Packages: []Package{{Name: "jq"}}}
	})
	colliding := func(s Stored) Stored { s.Digest = strings.Repeat("0", 64); return s }
	codex := with(func(r *Request) { r.Agent = "codex" })
	for _, tc := range []struct {
		name   string
		req    Request
		stored []Stored
		change Change
		why    string
	}{
		{name: "agent, not built", req: alone, change: ChangeBuild, why: "not built yet"},
		{name: "agent, built", req: alone, stored: []Stored{agent("debian:2", "sha256:2")}, change: ChangeNone, why: "up to date"},
		{name: "agent, built by an old version", req: alone, stored: []Stored{agent("debian:2", "")}, change: ChangeNone, why: "up to date"},
		{
			name: "agent, base pulled again", req: alone, stored: []Stored{agent("debian:2", "sha256:1")}, change: ChangeNone,
			why: `base image debian:2 has changed: use it with "docker ralph image build"`,
		},
		{name: "agent, base gone", req: with(func(r *Request) { r.Base, r.Project = "gone:1", nil }), stored: []Stored{agent("gone:1", "sha256:1")}, change: ChangeNone, why: "up to date"},
		{name: "agent, another digest", req: alone, stored: []Stored{colliding(agent("debian:2", "sha256:2"))}, change: ChangeBuild, why: "image with this tag was built from something else"},
		{name: "project, another digest", req: now, stored: []Stored{colliding(layer(now, 0))}, change: ChangeBuild, why: "image with this tag was built from something else"},
		{name: "project, nothing built", req: now, change: ChangeBuild, why: "not built yet"},
		{name: "project, agent built", req: now, stored: []Stored{agent("debian:2", "sha256:2")}, change: ChangeBuild, why: "not built yet"},
		{name: "project, built for another agent", req: now, stored: []Stored{layer(codex, 0)}, change: ChangeBuild, why: "not built yet"},
		{name: "project, built", req: now, stored: []Stored{agent("debian:2", "sha256:2"), layer(now, 0)}, change: ChangeNone, why: "up to date"},
		{name: "project, built, agent's image gone", req: now, stored: []Stored{layer(now, 0)}, change: ChangeNone, why: "up to date"},
		{
			name: "project, agent image rebuilt", req: now, stored: []Stored{{ID: "sha256:other", Tags: tags(alone)}, layer(now, 0)},
			change: ChangeBuild, why: "image " + tags(alone)[0] + " was rebuilt",
		},
		{
			name: "project, base pulled again", req: now, stored: []Stored{agent("debian:2", "sha256:1"), layer(now, 0)}, change: ChangeNone,
			why: `base image debian:2 has changed: use it with "docker ralph image build"`,
		},
		{name: "Dockerfile changed", req: now, stored: []Stored{layer(oldFile, 0)}, change: ChangeBuild, why: ".agent-loop/Dockerfile.sandbox changed"},
		{name: "copied file changed", req: copies, stored: []Stored{layer(now, 0)}, change: ChangeBuild, why: ".agent-loop/Dockerfile.sandbox or another file there changed"},
		{name: "packages changed", req: packages, stored: []Stored{layer(now, 0)}, change: ChangeBuild, why: ".agent-loop/dependencies changed"},
		{
			name: "base changed", req: now, stored: []Stored{agent("debian:1", "sha256:1"), layer(oldBase, 0)},
			change: ChangeBuild, why: "base image changed from debian:1 to debian:2",
		},
		{
			name: "base changed, old agent's image gone", req: now, stored: []Stored{layer(oldBase, 0)},
			change: ChangeBuild, why: "agent image changed from " + tags(oldBase)[0] + " to " + tags(alone)[0],
		},
		{
			name: "both changed", req: now, stored: []Stored{agent("debian:1", "sha256:1"), layer(oldBoth, 0)},
			change: ChangeBuild, why: "base image changed from debian:1 to debian:2, and .agent-loop/Dockerfile.sandbox changed",
		},
		{
			name: "the latest counts", req: now, stored: []Stored{agent("debian:1", "sha256:1"), layer(oldBoth, 2*time.Hour), layer(oldFile, time.Hour), layer(oldBase, 3*time.Hour)},
			change: ChangeBuild, why: ".agent-loop/Dockerfile.sandbox changed",
		},
		{name: "given", req: Request{Image: "mine:1"}, change: ChangeNone, why: "used as it is"},
		{name: "given, not there", req: Request{Image: "mine:2"}, change: ChangePull, why: "not on the engine yet"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, engine, _ := newFake(t, map[string]string{"debian:2": "sha256:2", "mine:1": "sha256:3"})
			plan, err := b.Plan(t.Context(), tc.req, tc.stored)
			assert.NilError(t, err)
			assert.Equal(t, plan.Why, tc.why)
			assert.Equal(t, plan.Change, tc.change)
			assert.Equal(t, plan.Ref, refOf(t, tc.req))
			for _, call := range engine.calls {
				assert.Assert(t, strings.HasPrefix(call, "inspect "), call)
			}
		})
	}
}

func TestPlanNamesTheImage(t *testing.T) {
	b, _, _ := newFake(t, nil)
	project := &Project{Root: "/src/Shop", File: "/src/Shop/.agent-loop/dependencies", Dockerfile: []byte("x")}
	plan, err := b.Plan(t.Context(), Request{Agent: "claude", Base: "debian", Project: project}, nil)
	assert.NilError(t, err)
	assert.Equal(t, plan.Kind+" "+plan.Agent+" "+plan.Project, "project claude "+projectName("/src/Shop"))
	assert.Equal(t, plan.Base, refOf(t, Request{Agent: "claude", Base: "debian:latest"}))
	plan, err = b.Plan(t.Context(), Request{Agent: "claude", Base: "debian"}, nil)
	assert.NilError(t, err)
	assert.Equal(t, plan.Kind+" "+plan.Agent+" "+plan.Project+" "+plan.Base, "agent claude  debian:latest")
	plan, err = b.Plan(t.Context(), Request{Image: "mine:1", Agent: "claude"}, nil)
	assert.NilError(t, err)
	assert.Equal(t, plan, Plan{Ref: "mine:1", Kind: KindGiven, Change: ChangePull, Why: "not on the engine yet"})
	for _, req := range []Request{{Agent: "nobody"}, {Agent: "claude", Base: "No Image"}, {Agent: "claude", Platform: "x/y/z/w"}} {
		_, err = b.Plan(t.Context(), req, nil)
		assert.Assert(t, err != nil)
		_, err = Needs(req)
		assert.Assert(t, err != nil)
		_, err = Upstream(req)
		assert.Assert(t, err != nil)
	}
}

func TestUpstream(t *testing.T) {
	for want, req := range map[string]Request{
		"mine:1":               {Agent: "nobody", Image: "mine:1"},
		"debian:latest":        {Agent: "shell", Base: "docker.io/library/debian"},
		"debian:bookworm-slim": {Agent: "shell"},
	} {
		got, err := Upstream(req)
		assert.NilError(t, err)
		assert.Equal(t, got, want)
	}
}
