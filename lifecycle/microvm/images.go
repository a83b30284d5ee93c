package microvm

// Images returns the image of every sandbox that the driver of that name has
// made and not removed, by the sandbox's name, as far as it is remembered in
// stateDir. A record that cannot be read is an error.
func Images(stateDir, driver string) (map[string]string, error) {
	all := recordsOf(stateDir, driver)
	names, err := all.names()
	if err != nil {
		return nil, err
	}
	images := make(map[string]string, len(names))
	for _, name := range names {
		rec, found, err := all.read(name)
		if err != nil {
			return nil, err
		}
		if found {
			images[name] = rec.Image
		}
	}
	return images, nil
}
