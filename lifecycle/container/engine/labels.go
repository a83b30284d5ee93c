package engine

// Labels of everything that docker-ralph creates on an engine.
const (
	LabelPrefix    = "io.github.docker-ralph."
	LabelCreatedBy = LabelPrefix + "created-by"
	LabelSandbox   = LabelPrefix + "sandbox"
	LabelRole      = LabelPrefix + "role" // of everything but sandboxes

	// CreatedBy is the value of [LabelCreatedBy].
	CreatedBy = "docker-ralph"
	// RoleHelper is the role of a container that runs one command.
	RoleHelper = "helper"
)

// PartLabels returns the labels of something that belongs to a sandbox.
func PartLabels(sandbox, role string) map[string]string {
	return map[string]string{LabelCreatedBy: CreatedBy, LabelSandbox: sandbox, LabelRole: role}
}
