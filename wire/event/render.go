package event

// Render returns what a person sees of an event; it may be empty. The form
// is that of the original program's output.
func Render(e Event) string {
	switch e := e.(type) {
	case Text:
		return e.Text
	case Tool:
		return "\n🔧 " + e.Name + e.Detail + "\n"
	case Retry:
		return "\n↻ " + e.Text + "\n"
	case Result:
		return "\n━━ " + e.Summary + " ━━\n"
	default:
		return ""
	}
}
