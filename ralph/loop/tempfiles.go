package loop

// recordTemp returns a function that removes the temporary files made since, so that each
// run and each check finds the same space. Those of another session in the sandbox cannot
// be told from the run's: then all stay.
func (l *loop) recordTemp() (clean func()) {
	if l.TempFiles == nil {
		return func() {}
	}
	remove := l.TempFiles()
	return func() {
		if l.otherSession() != "" {
			return
		}
		if err := remove(); err != nil {
			l.warnOnce("temp", "removing temporary files of the run: %s", err)
		}
	}
}
