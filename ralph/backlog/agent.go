package backlog

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
)

// Agent works on tasks.
type Agent struct {
	ID        string // four hexadecimal digits, unique in the database
	PID       int
	Hostname  string
	StartedAt string // UTC, as YYYY-MM-DD HH:MM:SS
	Status    string // active or stopped
	// Loop reports whether a loop has registered the agent: it dies with the loop's session, or without one with the
	// process.
	Loop    bool
	Session string // empty without one
}

const agentIDAttempts = 10

// Hostname returns the host name of the agents of this machine or container.
func Hostname(getenv func(string) string) (string, error) {
	if name := getenv("HOSTNAME"); name != "" {
		return name, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("getting the host name: %w", err)
	}
	return name, nil
}

// RegisterAgent records a new active agent and returns its ID.
func (s *Store) RegisterAgent(ctx context.Context, a Agent) (id string, err error) {
	session := sql.NullString{String: a.Session, Valid: a.Loop}
	err = s.write(ctx, func(tx *sql.Tx) error {
		for range agentIDAttempts {
			var b [2]byte
			_, _ = rand.Read(b[:]) // never fails
			id = hex.EncodeToString(b[:])
			n, err := affected(ctx, tx, `
				INSERT INTO agents (id, pid, hostname, scope_repo, scope_branch, session)
				SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE NOT EXISTS (SELECT 1 FROM agents WHERE id = ?1)`,
				id, a.PID, a.Hostname, s.scope.Repo, s.scope.Branch, session)
			if err != nil || n == 1 {
				return err
			}
		}
		return errors.New("failed to generate unique agent ID after 10 attempts")
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// Agents returns the active agents of the scope, newest first.
func (s *Store) Agents(ctx context.Context) ([]Agent, error) {
	var agents []Agent
	err := s.read(ctx, func(tx *sql.Tx) error {
		agents = nil
		return each(ctx, tx, `
			SELECT id, COALESCE(CAST(pid AS INTEGER), 0), COALESCE(hostname, ''), COALESCE(started_at, ''), status,
				session IS NOT NULL, COALESCE(session, '')
			FROM agents WHERE scope_repo = ? AND scope_branch = ? AND status = 'active'
			ORDER BY started_at DESC, rowid DESC`, s.args(), func(rows *sql.Rows) error {
			var a Agent
			err := rows.Scan(&a.ID, &a.PID, &a.Hostname, &a.StartedAt, &a.Status, &a.Loop, &a.Session)
			agents = append(agents, a)
			return err
		})
	})
	return agents, err
}

// AgentIDs returns the IDs of all agents of the scope, stopped ones too.
func (s *Store) AgentIDs(ctx context.Context) (map[string]bool, error) {
	ids := map[string]bool{}
	err := s.read(ctx, func(tx *sql.Tx) error {
		return each(ctx, tx, "SELECT id FROM agents WHERE scope_repo = ? AND scope_branch = ?", s.args(), func(rows *sql.Rows) error {
			var id string
			err := rows.Scan(&id)
			ids[id] = true
			return err
		})
	})
	return ids, err
}

// DeregisterAgent marks an agent as stopped, and reopens its finished tasks. It is idempotent.
func (s *Store) DeregisterAgent(ctx context.Context, id string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := s.stop(ctx, tx, id)
		return err
	})
}

const reasonNotTaken = "the run ended before its commits were taken"

// stop marks an agent as stopped. Its finished tasks, which no other agent could claim, become open; it returns them.
func (s *Store) stop(ctx context.Context, tx *sql.Tx, id string) ([]Released, error) {
	n, err := affected(ctx, tx, "UPDATE agents SET status = 'stopped' WHERE scope_repo = ? AND scope_branch = ? AND id = ?", s.args(id)...)
	if err == nil && n == 0 {
		err = faultf(ErrNotFound, "agent '%s' not found", id)
	}
	if err != nil {
		return nil, err
	}
	return s.release(ctx, tx, id, `
		UPDATE tasks SET status = 'open', assignee = NULL, lease_expires_at = NULL, result = NULL, fail_reason = ?,
			updated_at = datetime('now')`, reasonNotTaken, StatusFinished)
}

// release runs an update with a reason on the tasks of an agent that have a status.
func (s *Store) release(ctx context.Context, tx *sql.Tx, id, update, reason, status string) (released []Released, err error) {
	err = each(ctx, tx, update+" WHERE scope_repo = ? AND scope_branch = ? AND status = ? AND assignee = ? RETURNING slug",
		[]any{reason, s.scope.Repo, s.scope.Branch, status, id}, func(rows *sql.Rows) error {
			r := Released{Agent: id}
			err := rows.Scan(&r.Slug)
			released = append(released, r)
			return err
		})
	return released, err
}

// BeginRun starts a run of an agent: [Store.Overtaken] returns only what it loses from now on.
func (s *Store) BeginRun(ctx context.Context, agent string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE tasks AS t SET taken_from = NULL WHERE "+inScope+" AND t.taken_from = ?3", s.args(agent)...)
		return err
	})
}

// Overtaken returns the tasks that others have claimed in this run of the agent, after its leases had expired.
func (s *Store) Overtaken(ctx context.Context, agent string) (slugs []string, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		slugs = nil
		return each(ctx, tx, "SELECT t.slug FROM tasks t WHERE "+inScope+" AND t.taken_from = ?3 AND t.claimed_by IS NOT ?3 ORDER BY "+inOrder,
			s.args(agent), func(rows *sql.Rows) error {
				var slug string
				err := rows.Scan(&slug)
				slugs = append(slugs, slug)
				return err
			})
	})
	return slugs, err
}

// Released is a task released from a dead agent.
type Released struct{ Agent, Slug string }

const reasonDead = "agent process died"

// ReleaseDead reopens the active and finished tasks of dead agents and marks these agents as stopped.
func (s *Store) ReleaseDead(ctx context.Context, dead func(Agent) bool) ([]Released, error) {
	agents, err := s.Agents(ctx)
	if err == nil {
		err = s.write(ctx, func(tx *sql.Tx) error { return s.blockExpired(ctx, tx) })
	}
	if err != nil {
		return nil, err
	}
	var all []Released
	for _, a := range agents {
		if !dead(a) {
			continue
		}
		released, err := s.releaseAll(ctx, a.ID)
		if err != nil {
			return all, err
		}
		all = append(all, released...)
	}
	return all, nil
}

func (s *Store) releaseAll(ctx context.Context, id string) (released []Released, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		active, err := s.release(ctx, tx, id, reopen, reasonDead, StatusActive)
		if err != nil {
			return err
		}
		finished, err := s.stop(ctx, tx, id)
		released = append(active, finished...)
		return err
	})
	return released, err
}
