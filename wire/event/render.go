package event

// Render returns the displayed form of an event, as in the original program; it can
// be empty.
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
