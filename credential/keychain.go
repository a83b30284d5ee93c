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

	"github.com/docker-ralph/docker-ralph/hint"
)

// KeychainProgram reads the Keychain of macOS.
const KeychainProgram = "/usr/bin/security"

// claudeItem is the item with Claude Code's login on macOS.
const claudeItem = "Claude Code-credentials"

// keychainLimit bounds a query, which may show a dialog.
const keychainLimit = 30 * time.Second

// Exit codes of security: the last byte of Apple's error codes.
const (
	keychainNoItem   = 44  // errSecItemNotFound
	keychainLocked   = 36  // errSecInteractionNotAllowed
	keychainRefused  = 51  // errSecAuthFailed
	keychainCanceled = 128 // errSecUserCanceled
)

// keychain returns an item of the Keychain; a missing one is empty.
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
		return nil, hint.Wrap(fmt.Errorf("no answer within %s", limit), "look for a dialog on the screen")
	case !failed:
		return out.Bytes(), err
	}
	switch code := exit.ExitCode(); code {
	case keychainNoItem:
		return nil, nil
	case keychainLocked:
		return nil, hint.Wrap(errors.New("locked"), "run %q", "security unlock-keychain")
	case keychainRefused, keychainCanceled:
		return nil, errors.New("access denied")
	default:
		return nil, fmt.Errorf("%s ended with exit code %d", r.Keychain, code)
	}
}

// keychainText decodes the output of security, which is hexadecimal if the item is not plain
// text.
func keychainText(printed []byte) []byte {
	printed = bytes.TrimSpace(printed)
	if text, err := hex.DecodeString(strings.TrimPrefix(string(printed), "0x")); err == nil {
		return text
	}
	return printed
}
