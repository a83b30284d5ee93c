package userimage

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestSetEntry(t *testing.T) {
	const root = "root:x:0:0:root:/root:/bin/sh\n"
	for _, tc := range []struct {
		name, before, entry, after string
	}{
		{"the number has a name", root, "agent:x:0:0::/home/agent:/bin/sh", root},
		{"a new user", root, "agent:x:1234:1234::/h:/bin/sh", root + "agent:x:1234:1234::/h:/bin/sh\n"},
		{"the image's user is renumbered", root + "agent:x:1000:1000::/home/agent:/bin/bash\nz:x:7:7::/:/bin/sh\n", "agent:x:501:20::/h:/bin/sh", root + "z:x:7:7::/:/bin/sh\nagent:x:501:20::/h:/bin/sh\n"},
		{"no newline at the end", "root:x:0:0:root:/root:/bin/sh", "agent:x:5:5::/h:/bin/sh", root + "agent:x:5:5::/h:/bin/sh\n"},
		{"a number within another", "a:x:15:15::/:/bin/sh\n", "agent:x:5:5::/h:/bin/sh", "a:x:15:15::/:/bin/sh\nagent:x:5:5::/h:/bin/sh\n"},
		{"empty", "", "agent:x:5:", "agent:x:5:\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, setEntry(tc.before, tc.entry), tc.after)
		})
	}
}
