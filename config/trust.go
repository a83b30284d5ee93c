package config

import "errors"

// TrustStore remembers, per work tree, which widening settings the user has
// approved.
type TrustStore struct {
	// Path is the file, normally trust.json in the plugin's folder.
	Path string
}

// Approved says whether exactly this content was approved for root.
func (t TrustStore) Approved(root, digest string) (bool, error) {
	return false, errors.New("not built yet")
}

// Approve remembers the content as approved.
func (t TrustStore) Approve(root, digest string) error { return errors.New("not built yet") }

// Revoke forgets every approval of root.
func (t TrustStore) Revoke(root string) error { return errors.New("not built yet") }

// Require returns an *UntrustedError unless e has nothing to approve or all of
// it is approved.
func (t TrustStore) Require(e Effective) error { return errors.New("not built yet") }
