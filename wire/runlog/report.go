package runlog

// Report is the result of a loop that "ralph build --format json" prints. Its names are part of the
// interface. The plugin prints it again if the host knows more about the end.
type Report struct {
	Stop       string `json:"stop"`
	ExitCode   int    `json:"exit_code"`
	Error      string `json:"error,omitempty"`
	Log        string `json:"log,omitempty"`
	Iterations any    `json:"iterations"`
	Totals     any    `json:"totals"`
}

// ReportPrefix begins the line of a [Report].
const ReportPrefix = `{"stop":`
