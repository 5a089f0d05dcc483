package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/assert/yaml"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/cli"
	"github.com/loopgridio/loopgrid-mcp/internal/golden"
)

func TestServerJSON_IsInStep(t *testing.T) {
	t.Parallel()
	r, err := newRelease(root, t.TempDir(), "", cli.Version)
	require.NoError(t, err)
	path := filepath.Join(r.dist, "server.json")
	require.NoError(t, r.writeServer(path, nil))
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	golden.Equal(t, filepath.Join(root, "server.json"), string(written))
}

// schema is the one that the registry publishes.
func schema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	text, err := os.ReadFile("testdata/registry/server.schema.json")
	require.NoError(t, err)
	var s jsonschema.Schema
	require.NoError(t, json.Unmarshal(text, &s))
	resolved, err := s.Resolve(nil)
	require.NoError(t, err)
	return resolved
}

func TestServerJSON_FitsTheSchemaOfTheRegistry(t *testing.T) {
	t.Parallel()
	schema := schema(t)
	r := packFake(t)
	released, err := os.ReadFile(filepath.Join(r.dist, "server.json"))
	require.NoError(t, err)
	for name, text := range map[string]string{"source tree": source(t, "server.json"), "release": string(released)} {
		var value any
		require.NoError(t, json.Unmarshal([]byte(text), &value))
		assert.NoError(t, schema.Validate(value), name)
	}

	// The schema has a say.
	for old, wrong := range map[string]string{ //nolint:gosec // isSecret is a name in the schema.
		`"type": "stdio"`:                                             `"type": "pipe"`,
		`"identifier": "loopgrid-mcp",` + "\n":                        "",
		`"version": "` + r.version + `",` + "\n      \"runtimeHint\"": `"version": "latest", "runtimeHint"`,
		`"type": "named"`:                                             `"type": "other"`,
		`"isSecret": true`:                                            `"isSecret": "yes"`,
	} {
		changed := strings.Replace(string(released), old, wrong, 1)
		require.NotEqual(t, string(released), changed, old)
		var value any
		require.NoError(t, json.Unmarshal([]byte(changed), &value))
		assert.Error(t, schema.Validate(value), wrong)
	}
}

// What the registry checks beyond its schema.
func TestServerJSON_FitsTheRulesOfTheRegistry(t *testing.T) {
	t.Parallel()
	r := packFake(t)
	released, err := os.ReadFile(filepath.Join(r.dist, "server.json"))
	require.NoError(t, err)
	var s server
	require.NoError(t, json.Unmarshal(released, &s))
	for _, p := range s.Packages {
		switch p.RegistryType {
		case "mcpb":
			file := p.Identifier[strings.LastIndex(p.Identifier, "/")+1:]
			assert.Equal(t, repository+"/releases/download/v"+r.version+"/"+file, p.Identifier)
			bundle, err := os.ReadFile(filepath.Join(r.dist, file))
			require.NoError(t, err)
			assert.Equal(t, sum(bundle), p.FileSHA256)
		case "oci":
			assert.Empty(t, p.Version)
			assert.Empty(t, p.FileSHA256)
		default:
			assert.Equal(t, r.version, p.Version)
			assert.Empty(t, p.FileSHA256)
		}
	}
}

// The binary is built in four places, and has to be the same one.
func TestTheFlagsOfABuildAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	var releaser struct {
		Builds []struct {
			Env, Flags, Tags, LDFlags, Goos, Goarch []string
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(source(t, ".goreleaser.yaml")), &releaser))
	require.Len(t, releaser.Builds, 1)
	build := releaser.Builds[0]
	assert.Equal(t, []string{"CGO_ENABLED=0"}, build.Env)
	assert.Equal(t, []string{"-trimpath", "-buildvcs=false"}, build.Flags)
	assert.Equal(t, []string{buildTags}, build.Tags)
	assert.Equal(t, []string{buildLDFlags}, build.LDFlags)
	var targets []string
	for _, target := range platforms() {
		targets = append(targets, target.OS+"/"+target.Arch)
	}
	var built []string
	for _, system := range build.Goos {
		for _, processor := range build.Goarch {
			built = append(built, system+"/"+processor)
		}
	}
	assert.Equal(t, targets, built)

	flags := `build -trimpath -buildvcs=false -tags ` + buildTags + ` -ldflags "` + buildLDFlags + `"`
	for _, path := range []string{"Makefile", "Dockerfile"} {
		text := source(t, path)
		assert.Contains(t, text, flags, path)
		assert.Contains(t, text, "CGO_ENABLED=0", path)
	}
}

func TestReleasesAreBuiltWithOneToolchain(t *testing.T) {
	t.Parallel()
	find := func(path, pattern string) []string {
		var all []string
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(source(t, path), -1) {
			all = append(all, match[1])
		}
		return all
	}
	made := find("Makefile", `RELEASE_TOOLCHAIN \?= go([\d.]+)`)
	require.Len(t, made, 1)
	assert.Equal(t, made, find("Dockerfile", `GO_VERSION=([\d.]+)`))
	used := find(".github/workflows/release.yml", `go-version: (\S+)`)
	require.NotEmpty(t, used)
	for _, version := range used {
		assert.Equal(t, made[0], version)
	}
}

func TestTheImageIsTheOneThatTheRegistryKnows(t *testing.T) {
	t.Parallel()
	text := source(t, "Dockerfile")
	assert.Contains(t, text, `io.modelcontextprotocol.server.name="`+registryName+`"`)
	assert.Contains(t, text, `org.opencontainers.image.description="`+description+`"`)
	assert.Contains(t, text, "\nVOLUME "+containerEvidence+"\n")
	assert.Contains(t, text, "\nENV LOOPGRID_EVIDENCE_DIR="+containerEvidence+"\n")
	assert.Regexp(t, `\nUSER [1-9]\d*:[1-9]\d*\n`, text)
}

// workflow is a workflow of GitHub Actions, as far as the tests look at it.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		If          string
		Needs       any
		Permissions map[string]string
		Steps       []struct {
			Uses string
			With map[string]any
		}
	}
}

func TestWorkflows_PinActionsAndGiveFewRights(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(root + "/.github/workflows/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var w workflow
		require.NoError(t, yaml.Unmarshal(text, &w), path)
		require.NotEmpty(t, w.Jobs, path)
		for _, right := range w.Permissions {
			assert.Equal(t, "read", right, path)
		}
		for name, job := range w.Jobs {
			for _, step := range job.Steps {
				if step.Uses == "" {
					continue
				}
				assert.Regexp(t, pinned, step.Uses, path+": "+name)
				if strings.HasPrefix(step.Uses, "actions/checkout@") {
					assert.Equal(t, false, step.With["persist-credentials"], path+": "+name)
				}
			}
		}
	}
}

func TestReleaseWorkflow_PublishesOnlyATagAndInOrder(t *testing.T) {
	t.Parallel()
	var w workflow
	require.NoError(t, yaml.Unmarshal([]byte(source(t, ".github/workflows/release.yml")), &w))
	needs := map[string]any{
		"test": nil, "build": "test", "install": "build", "release": []any{"build", "install"},
		"pypi": "release", "npm": "release", "oci": "release", "homebrew": "release",
		"registry": []any{"release", "pypi", "npm", "oci"},
	}
	require.Len(t, w.Jobs, len(needs))
	for name, job := range w.Jobs {
		assert.Equal(t, needs[name], job.Needs, name)
		publishes := name != "test" && name != "build" && name != "install"
		assert.Equal(t, publishes, job.If == "github.event_name == 'push'", name)
		if !publishes {
			assert.Equal(t, map[string]string{"contents": "read"}, job.Permissions, name)
		}
	}
}
