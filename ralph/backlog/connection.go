package backlog

import (
	"context"
	"database/sql/driver"
	"errors"
)

// connector makes connections that keep the statements they have prepared. For
// most of this package's statements SQLite takes longer to read them than to
// run them.
type connector struct{ driver.Connector }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	plain, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if full, ok := plain.(driverConn); ok {
		return &connection{driverConn: full, kept: map[string]statement{}}, nil
	}
	return plain, nil
}

// driverConn is what the driver offers, and what database/sql wants to find.
type driverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// connection keeps a statement from the second time on that it is run, so that
// a short command pays nothing for it. No statement may be run again while its
// rows are still being read.
type connection struct {
	driverConn
	kept map[string]statement // nil: has run once
}

// maxKept bounds the memory. Few statements vary, by the length of a list.
const maxKept = 64

// keep returns the statement for a query, or nil if it should run without.
func (c *connection) keep(ctx context.Context, query string) (statement, error) {
	kept, known := c.kept[query]
	if kept != nil || !known && len(c.kept) >= maxKept {
		return kept, nil
	}
	if !known {
		c.kept[query] = nil
		return nil, nil
	}
	prepared, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	kept, ok := prepared.(statement)
	if !ok {
		return nil, prepared.Close()
	}
	c.kept[query] = kept
	return kept, nil
}

func (c *connection) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	kept, err := c.keep(ctx, query)
	if err != nil {
		return nil, err
	}
	if kept == nil {
		return c.driverConn.ExecContext(ctx, query, args)
	}
	return kept.ExecContext(ctx, args)
}

func (c *connection) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	kept, err := c.keep(ctx, query)
	if err != nil {
		return nil, err
	}
	if kept == nil {
		return c.driverConn.QueryContext(ctx, query, args)
	}
	return kept.QueryContext(ctx, args)
}

func (c *connection) Close() error {
	var errs []error
	for _, kept := range c.kept {
		if kept != nil {
			errs = append(errs, kept.Close())
		}
	}
	return errors.Join(append(errs, c.driverConn.Close())...)
}
