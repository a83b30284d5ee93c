package runlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// backlogFile is the copy of the backlog after a loop.
const backlogFile = "backlog.json"

type backlogCopy[T any] struct {
	Dispatch string `json:"dispatch"`
	Backlog  T      `json:"backlog"`
}

// SaveBacklog stores a copy of the backlog for the host, after the loop of a dispatch.
func SaveBacklog(top, dispatch string, backlog any) error {
	logs, err := MakeLogs(top, nil)
	if err != nil {
		return fmt.Errorf("copying the backlog for the host: %w", err)
	}
	defer func() { _ = logs.Close() }()
	content, err := json.Marshal(backlogCopy[any]{dispatch, backlog})
	if err == nil {
		err = replaceFile(logs, backlogFile, content)
	}
	if err != nil {
		return fmt.Errorf("copying the backlog for the host: %w", err)
	}
	return nil
}

// TakeBacklog returns and removes the copy that [SaveBacklog] has stored for a dispatch.
// The error is [fs.ErrNotExist] if there is none of at most limit bytes.
func TakeBacklog(top, dispatch string, limit int64) ([]byte, error) {
	logs, err := OpenLogs(top)
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }()
	content, err := readTail(logs, backlogFile, limit)
	if err != nil {
		return nil, err
	}
	err = logs.Remove(backlogFile)
	var found backlogCopy[json.RawMessage]
	if json.Unmarshal(content, &found) != nil || found.Dispatch != dispatch {
		err = errors.Join(err, fs.ErrNotExist)
	}
	return found.Backlog, err
}
