package cli_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/golden"
	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

func TestDoctorJSON(t *testing.T) {
	for name, tt := range map[string]struct {
		code    int
		environ map[string]string
	}{
		"doctor-well.json":    {0, nil},
		"doctor-fails.json":   {1, map[string]string{"LOOPGRID_SERVICE_KEY": "no-such-key", "LOOPGRID_API_KEY": "x"}},
		"doctor-setting.json": {2, map[string]string{"LOOPGRID_BASE_URL": "ftp://private.example"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := sandbox.New(sandbox.Options{Auth: true})
			url := serve(t, s)
			quiet(t)
			t.Setenv("LOOPGRID_BASE_URL", url)
			key := s.CreateKey("default")
			t.Setenv("LOOPGRID_SERVICE_KEY", key)
			status, _ := request(t, url+"/api/v1/decisions", key, `{"decision_type":"t"}`)
			require.Equal(t, http.StatusOK, status)
			recordsNothing(t, s)
			dir := filepath.Join(t.TempDir(), "not-there-yet")
			t.Setenv("LOOPGRID_EVIDENCE_DIR", dir)
			for variable, value := range tt.environ {
				t.Setenv(variable, value)
			}
			code, out, errs := run("doctor", "--json")
			assert.Equal(t, tt.code, code)
			assert.Empty(t, errs)

			// What programs rely on: the names, the statuses, and that what is not well has a remedy.
			var report struct {
				Version string
				Exit    int
				Checks  []struct{ ID, Status, Text, Remedy string }
			}
			decoder := json.NewDecoder(strings.NewReader(out))
			decoder.DisallowUnknownFields()
			require.NoError(t, decoder.Decode(&report))
			assert.Equal(t, tt.code, report.Exit)
			for _, c := range report.Checks {
				assert.Contains(t, []string{"ok", "info", "warn", "fail"}, c.Status)
				assert.Equal(t, c.Status == "warn" || c.Status == "fail", c.Remedy != "", c.ID)
				assert.NotEmpty(t, c.Text)
			}

			// The same as without --json.
			_, lines, _ := run("doctor")
			for _, c := range report.Checks {
				if c.ID != "chain" && c.ID != "evidence_dir_space" {
					assert.Contains(t, lines, "["+strings.ToUpper(c.Status)+"] "+c.Text+"\n")
				}
			}
			golden.Equal(t, filepath.Join("testdata", name), strings.NewReplacer(url, "URL", dir, "DIR", strings.ReplaceAll(dir, `\`, `\\`), "DIR").Replace(
				regexp.MustCompile(`checked in [0-9.]+ s`).ReplaceAllString(machineless(out), "checked in N s")))
		})
	}
	read, err := filepath.Glob(filepath.Join("testdata", "*"))
	require.NoError(t, err)
	assert.Len(t, read, 3, "no golden file is left over")
}
