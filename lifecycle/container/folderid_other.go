//go:build !linux

package container

// folderID is empty where engines run in a virtual machine, which shares directories by
// path.
func folderID(string) string { return "" }
