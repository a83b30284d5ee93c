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

// Agent is a session that works on tasks.
type Agent struct {
	ID        string // four hexadecimal digits, unique in the database
	PID       int
	Hostname  string
	StartedAt string // UTC, as YYYY-MM-DD HH:MM:SS
	Status    string // active or stopped
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

// RegisterAgent records a new active agent and returns its id.
func (s *Store) RegisterAgent(ctx context.Context, pid int, hostname string) (id string, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		for range agentIDAttempts {
			var b [2]byte
			_, _ = rand.Read(b[:]) // never fails
			id = hex.EncodeToString(b[:])
			n, err := affected(ctx, tx, `
				INSERT INTO agents (id, pid, hostname, scope_repo, scope_branch)
				SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT EXISTS (SELECT 1 FROM agents WHERE id = ?1)`,
				id, pid, hostname, s.scope.Repo, s.scope.Branch)
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
			SELECT id, COALESCE(CAST(pid AS INTEGER), 0), COALESCE(hostname, ''), COALESCE(started_at, ''), status
			FROM agents WHERE scope_repo = ? AND scope_branch = ? AND status = 'active'
			ORDER BY started_at DESC, rowid DESC`, []any{s.scope.Repo, s.scope.Branch}, func(rows *sql.Rows) error {
			var a Agent
			err := rows.Scan(&a.ID, &a.PID, &a.Hostname, &a.StartedAt, &a.Status)
			agents = append(agents, a)
			return err
		})
	})
	return agents, err
}

// AgentIDs returns the ids of all agents of the scope, stopped ones too.
func (s *Store) AgentIDs(ctx context.Context) (map[string]bool, error) {
	ids := map[string]bool{}
	err := s.read(ctx, func(tx *sql.Tx) error {
		return each(ctx, tx, "SELECT id FROM agents WHERE scope_repo = ? AND scope_branch = ?",
			[]any{s.scope.Repo, s.scope.Branch}, func(rows *sql.Rows) error {
				var id string
				err := rows.Scan(&id)
				ids[id] = true
				return err
			})
	})
	return ids, err
}

// DeregisterAgent marks an agent as stopped. It is idempotent.
func (s *Store) DeregisterAgent(ctx context.Context, id string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		n, err := affected(ctx, tx, "UPDATE agents SET status = 'stopped' WHERE id = ? AND scope_repo = ? AND scope_branch = ?",
			id, s.scope.Repo, s.scope.Branch)
		if err == nil && n == 0 {
			return faultf(ErrNotFound, "agent '%s' not found", id)
		}
		return err
	})
}
