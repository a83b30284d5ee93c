package config

import "fmt"

// Origin is where a value comes from.
type Origin struct {
	// Kind is the sort of source.
	Kind OriginKind
	// Name is the file's path, the environment variable's or flag's name;
	// empty for a default.
	Name string
	// Line is the line in the file, from 1; 0 for other sources.
	Line int
}

// OriginKind is a sort of source.
type OriginKind int

// The sources, each beating those before it.
const (
	FromDefault OriginKind = iota
	FromRepository
	FromUser
	FromEnvironment
	FromFlag
)

// String names the source as the user knows it: "/repo/ralph.toml:3",
// "RALPH_IMAGE", "--image", "default".
func (o Origin) String() string {
	switch o.Kind {
	case FromRepository, FromUser:
		return fmt.Sprintf("%s:%d", o.Name, o.Line)
	case FromEnvironment, FromFlag:
		return o.Name
	default:
		return "default"
	}
}
