package credential

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// KeychainProgram reads the Keychain of macOS.
const KeychainProgram = "/usr/bin/security"

// claudeItem is where Claude Code's login leaves what it got on macOS.
const claudeItem = "Claude Code-credentials"

// keychainLimit bounds one question to the Keychain, which may show a window and
// wait for the user there.
const keychainLimit = 30 * time.Second

// Exit codes of security: the last byte of Apple's number of the error.
const (
	keychainNoItem   = 44  // errSecItemNotFound
	keychainLocked   = 36  // errSecInteractionNotAllowed
	keychainRefused  = 51  // errSecAuthFailed
	keychainCanceled = 128 // errSecUserCanceled
)

// keychain asks the Keychain for an item. One that is not there is empty.
func (r Router) keychain(ctx context.Context, item string) ([]byte, error) {
	limit := r.limit
	if limit == 0 {
		limit = keychainLimit
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(limited, r.Keychain, "find-generic-password", "-s", item, "-w")
	cmd.Dir, cmd.WaitDelay = string(filepath.Separator), time.Second
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil:
		return nil, fmt.Errorf("it did not answer within %s: it may show a window that asks whether %s may read it", limit, filepath.Base(r.Keychain))
	case !failed:
		return out.Bytes(), err
	}
	switch code := exit.ExitCode(); code {
	case keychainNoItem:
		return nil, nil
	case keychainLocked:
		return nil, errors.New("it is locked, and nobody can be asked here: run \"security unlock-keychain\"")
	case keychainRefused, keychainCanceled:
		return nil, errors.New("it was not allowed to be read")
	default:
		return nil, fmt.Errorf("%s ended with exit code %d", r.Keychain, code)
	}
}

// keychainText is what an item holds: security prints it in hexadecimal when
// there is more in it than plain text.
func keychainText(printed []byte) []byte {
	printed = bytes.TrimSpace(printed)
	if text, err := hex.DecodeString(strings.TrimPrefix(string(printed), "0x")); err == nil {
		return text
	}
	return printed
}
