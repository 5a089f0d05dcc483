package main

import (
	"encoding/json"
	"os"
	"path"
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

// releaser is .goreleaser.yaml, as far as the tests look at it.
type releaser struct {
	Builds []struct {
		Env, Flags, Tags, LDFlags, Goos, Goarch []string
	}
	Archives []struct {
		Files []struct{ Src string }
	}
}

func readReleaser(t *testing.T) releaser {
	t.Helper()
	var r releaser
	require.NoError(t, yaml.Unmarshal([]byte(source(t, ".goreleaser.yaml")), &r))
	require.Len(t, r.Builds, 1)
	require.Len(t, r.Archives, 1)
	return r
}

// The flags of a build are written down in the Makefile. GoReleaser gets them from there, and the Dockerfile calls make.
func TestTheFlagsOfABuildAreWrittenDownOnce(t *testing.T) {
	t.Parallel()
	build := readReleaser(t).Builds[0]
	assert.Equal(t, []string{"{{ .Env.BUILD_LDFLAGS }}"}, build.LDFlags)
	assert.Empty(t, build.Flags)
	assert.Empty(t, build.Tags)
	assert.Empty(t, build.Env)
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
	assert.Contains(t, source(t, "Dockerfile"), " make build RELEASE=$RELEASE ")
	assert.NotContains(t, source(t, "Dockerfile"), "-ldflags")
	assert.Contains(t, source(t, "packaging/publish/image"), " --build-arg RELEASE=yes ", "or it says that it is no release")
	assert.Contains(t, source(t, "Makefile"), "-ldflags=$(BUILD_LDFLAGS)")
	assert.Contains(t, source(t, "scripts/launch/launch.go"), `"-trimpath", "-tags=nethttpomithttp2", "-ldflags=-s -w"`, "what is measured is built like what is released")
	assert.Contains(t, source(t, "Makefile"), "-trimpath -tags=nethttpomithttp2 ")
	assert.Contains(t, source(t, "Makefile"), "BUILD_LDFLAGS = -s -w$(if ")
	assert.Contains(t, source(t, "Makefile"), "--parallelism 1", "GoReleaser joins the programs for macOS in the order in which their builds end")
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
	assert.Equal(t, made, find("Dockerfile", `ENV GOTOOLCHAIN=go([\d.]+)`))
	used := find(".github/workflows/release.yml", `go-version: (\S+)`)
	require.NotEmpty(t, used)
	for _, version := range used {
		assert.Equal(t, made[0], version)
	}
}

// A tag of a base image can be moved; a digest cannot.
func TestBaseImagesArePinnedByDigest(t *testing.T) {
	t.Parallel()
	images := regexp.MustCompile(`(?m)^FROM (?:--\S+ )?(\S+)`).FindAllStringSubmatch(source(t, "Dockerfile"), -1)
	require.NotEmpty(t, images)
	for _, image := range images {
		if image[1] != "scratch" {
			assert.Regexp(t, `^\S+@sha256:[0-9a-f]{64}$`, image[1])
		}
	}
}

// The documents of an archive link to each other, and so do those of the README's neighbours.
func TestDocumentsLinkOnlyToWhatArchivesHold(t *testing.T) {
	t.Parallel()
	var held []string
	for _, f := range readReleaser(t).Archives[0].Files {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(f.Src)))
		require.NoError(t, err)
		for _, path := range found {
			path, err := filepath.Rel(root, path)
			require.NoError(t, err)
			held = append(held, filepath.ToSlash(path))
		}
	}
	require.Contains(t, held, "README.md")
	link := regexp.MustCompile(`\]\(([\w.][\w./-]*)(?:#[\w-]*)?\)`)
	for _, document := range held {
		if !strings.HasSuffix(document, ".md") || document == "CONTRIBUTING.md" {
			continue // CONTRIBUTING is for those who have the sources.
		}
		for _, found := range link.FindAllStringSubmatch(source(t, document), -1) {
			assert.Contains(t, held, path.Join(path.Dir(document), found[1]), document)
		}
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
