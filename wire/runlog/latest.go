package runlog

import (
	"os"
	"path"
	"time"
)

// looked bounds how much of a folder that an agent can fill is looked at.
const looked = 1000

// Latest is when a run of an agent in the work tree top was logged last; zero
// if none was. It is for who watches loops from outside, again and again: agents
// can write there, so nothing is opened but folders, and nothing outside of top
// is looked at.
func Latest(top string) time.Time {
	root, err := os.OpenRoot(top)
	if err != nil {
		return time.Time{}
	}
	defer func() { _ = root.Close() }()
	logs, err := root.OpenRoot(dir)
	if err != nil {
		return time.Time{}
	}
	defer func() { _ = logs.Close() }()
	var latest time.Time
	for _, name := range recentNames(logs) {
		info, err := logs.Lstat(path.Join(name, iterationsFile))
		if err == nil && info.ModTime().After(latest) {
			latest = info.ModTime()
		}
	}
	return latest
}
