package engine

// Labels of everything that docker-ralph creates on an engine.
const (
	LabelPrefix    = "io.github.docker-ralph."
	LabelCreatedBy = LabelPrefix + "created-by"
	LabelSandbox   = LabelPrefix + "sandbox"
	LabelRole      = LabelPrefix + "role"   // of everything but sandboxes
	LabelClient    = LabelPrefix + "client" // [scopes.ClientID]; missing for what an earlier version has created

	// CreatedBy is the value of [LabelCreatedBy].
	CreatedBy = "docker-ralph"
	// RoleHelper is the role of a container that runs one command.
	RoleHelper = "helper"
)

// PartLabels returns the labels of something that belongs to a sandbox of a client.
func PartLabels(sandbox, client, role string) map[string]string {
	l := map[string]string{LabelCreatedBy: CreatedBy, LabelSandbox: sandbox, LabelRole: role}
	if client != "" { // the sandbox is of an earlier version
		l[LabelClient] = client
	}
	return l
}
