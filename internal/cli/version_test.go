package cli

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFullVersion(t *testing.T) {
	t.Parallel()
	commit := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: modified}}
	}
	assert.Equal(t, Version, fullVersion("yes", nil))
	assert.Equal(t, Version, fullVersion("", &debug.BuildInfo{Main: debug.Module{Version: "v" + Version}}), "go install of a tag")
	assert.Equal(t, Version+"-dev", fullVersion("", nil))
	assert.Equal(t, Version+"-dev", fullVersion("", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}))
	assert.Equal(t, Version+"-dev+0123456789ab", fullVersion("", &debug.BuildInfo{Settings: commit("false")}))
	assert.Equal(t, Version+"-dev+0123456789ab.modified", fullVersion("", &debug.BuildInfo{Settings: commit("true")}))
}
