package guest

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire"
)

func TestCompleteEnv(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	assert.NilError(t, os.WriteFile(file, nil, 0o600))
	type vars = map[string]string
	for _, tc := range []struct {
		name        string
		given, want vars
	}{
		{"nothing", vars{}, vars{"LANG": "C.UTF-8"}},
		{"empty locale", vars{"LANG": "", "LC_ALL": ""}, vars{"LANG": "C.UTF-8", "LC_ALL": ""}},
		{"locale of the image", vars{"LANG": "de_DE.UTF-8"}, vars{"LANG": "de_DE.UTF-8"}},
		{"POSIX by choice", vars{"LC_ALL": "C"}, vars{"LC_ALL": "C"}},
		{"characters alone", vars{"LC_CTYPE": "en_US.UTF-8"}, vars{"LC_CTYPE": "en_US.UTF-8"}},
		{"order alone", vars{"LC_COLLATE": "C"}, vars{"LC_COLLATE": "C", "LANG": "C.UTF-8"}},
		{"temporary directory", vars{"LANG": "C", "TMPDIR": dir}, vars{"LANG": "C", "TMPDIR": dir}},
		{"temporary directory of the host", vars{"LANG": "C", "TMPDIR": "/var/folders/zz/T/"}, vars{"LANG": "C"}},
		{"temporary file", vars{"LANG": "C", "TMPDIR": file}, vars{"LANG": "C"}},
		{"relative temporary directory", vars{"LANG": "C", "TMPDIR": "."}, vars{"LANG": "C"}},
		{"empty temporary directory", vars{"LANG": "C", "TMPDIR": ""}, vars{"LANG": "C"}},
		{
			"XDG directories",
			vars{"LANG": "C", "XDG_CACHE_HOME": "", "XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "/data", "XDG_STATE_HOME": "~/state"},
			vars{"LANG": "C", "XDG_DATA_HOME": "/data"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			completeEnv(tc.given)
			assert.DeepEqual(t, tc.given, tc.want)
		})
	}
}

func TestSetDefaultsInASandboxOnly(t *testing.T) {
	for _, name := range []string{"LANG", "LC_ALL", "LC_CTYPE"} {
		t.Setenv(name, "")
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv(wire.DispatchEnv, "")
	SetDefaults()
	assert.Equal(t, os.Getenv("LANG"), "")

	t.Setenv(wire.DispatchEnv, "id")
	SetDefaults()
	assert.Equal(t, os.Getenv("LANG"), "C.UTF-8")
	_, set := os.LookupEnv("XDG_CACHE_HOME")
	assert.Assert(t, !set)
	assert.Assert(t, os.Getenv("PATH") != "")
}
