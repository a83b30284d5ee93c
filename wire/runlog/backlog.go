package runlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// backlogFile holds the backlog as a loop has left it.
const backlogFile = "backlog.json"

// PutBacklog leaves a copy of the backlog for the host, at the end of the loop of a
// dispatch.
func PutBacklog(top, dispatch string, backlog any) (err error) {
	logs, err := makeLogs(top, nil)
	if err != nil {
		return fmt.Errorf("copying the backlog for the host: %w", err)
	}
	defer func() { _ = logs.Close() }()
	const temp = backlogFile + ".new"
	content, err := json.Marshal(struct {
		Dispatch string `json:"dispatch"`
		Backlog  any    `json:"backlog"`
	}{dispatch, backlog})
	if err == nil {
		err = logs.RemoveAll(temp) // an agent can have made it
	}
	if err == nil {
		err = writeNew(logs, temp, content)
	}
	if err == nil {
		err = logs.Rename(temp, backlogFile)
	}
	if err != nil {
		return fmt.Errorf("copying the backlog for the host: %w", errors.Join(err, logs.RemoveAll(temp)))
	}
	return nil
}

func writeNew(at *os.Root, name string, content []byte) error {
	f, err := at.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// TakeBacklog returns the copy that [PutBacklog] has left for a dispatch, and removes it.
// The error is [fs.ErrNotExist] if there is none, or none of at most limit bytes.
func TakeBacklog(top, dispatch string, limit int64) ([]byte, error) {
	logs, err := openLogs(top)
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }()
	f, err := openFile(logs, backlogFile)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, limit))
	err = errors.Join(err, f.Close(), logs.Remove(backlogFile))
	var left struct {
		Dispatch string          `json:"dispatch"`
		Backlog  json.RawMessage `json:"backlog"`
	}
	if err == nil && (json.Unmarshal(content, &left) != nil || left.Dispatch != dispatch) {
		err = fs.ErrNotExist
	}
	return left.Backlog, err
}
