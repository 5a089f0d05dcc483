package main

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/scripts/launch"
)

// Everything is measured once, of the real programs; the figures do not matter here.
func TestMeasure(t *testing.T) {
	t.Parallel()
	if os.Getenv("LOOPGRID_BENCH_TEST") == "" {
		t.Skip("it builds programs and takes half a minute: make bench-test")
	}
	binary, err := launch.Build(t.Context(), t.TempDir(), launch.Program)
	require.NoError(t, err)
	tiny := amounts{
		rounds: 1, coldStarts: 1, calls: 20, large: 1, budget: time.Minute, writing: 10 * time.Millisecond, manyCalls: 1010, bundle: 100_000, crowd: 3,
	}
	picture := filepath.Join(t.TempDir(), "bench.svg")
	o := &options{command: binary, peer: binary, peerName: "another", svg: picture}
	var out, progress bytes.Buffer
	require.NoError(t, measure(t.Context(), o, tiny, &out, &progress), progress.String())
	assert.Contains(t, progress.String(), "round 1 of 1")
	table := strings.Split(out.String(), "\n")
	require.Len(t, table, 3+len(rows(tiny))+3, out.String())
	for i, r := range rows(tiny) {
		line := table[3+i]
		assert.True(t, strings.HasPrefix(line, r.heading()), line)
		if r.unit != inBytes && !strings.Contains(r.name, "processor time") || runtime.GOOS == "linux" || r.name == rowBinary {
			assert.NotContains(t, line, "n/a")
		}
	}

	o = &options{command: binary, limits: true}
	out.Reset()
	require.NoError(t, measure(t.Context(), o, tiny, &out, &progress), progress.String())
	for _, r := range limitRows(tiny) {
		assert.Contains(t, out.String(), r.heading())
	}

	drawn, err := os.ReadFile(picture)
	require.NoError(t, err)
	assert.Contains(t, string(drawn), "Medians of 1 interleaved rounds")
	decoder := xml.NewDecoder(bytes.NewReader(drawn))
	for err = nil; err == nil; _, err = decoder.Token() {
	}
	require.ErrorIs(t, err, io.EOF)
}

func TestRunUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"-h"}, 0},
		{[]string{"-nothing"}, 2},
		{[]string{"-rounds", "0"}, 2},
		{[]string{"something"}, 2},
		{[]string{"-quick", "-command", filepath.Join(t.TempDir(), "nothing")}, 1},
	} {
		var out, errs bytes.Buffer
		assert.Equal(t, c.code, run(t.Context(), c.args, &out, &errs), "%v %s", c.args, &errs)
		assert.Empty(t, out.String())
		assert.NotEmpty(t, errs.String())
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	assert.InDelta(t, 2, median([]float64{3, 1, 2}), 0)
	assert.InDelta(t, 2.5, median([]float64{4, 1, 2, 3}), 0)
	assert.InDelta(t, 7, median([]float64{7}), 0)
	assert.True(t, math.IsNaN(median(nil)))
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	f := newFigures()
	for _, v := range []float64{90, 100, 500} {
		f.add("a", sameTool, v)
	}
	f.add("a", ours, 125)
	f.add("b", ours, 12e6)
	f.add("zero", ours, 10)
	f.add("zero", sameTool, 0)
	for name, c := range map[string]struct {
		row     row
		ratio   float64
		verdict string
	}{
		"no limit":        {row{name: "a", reference: sameTool}, 1.25, ""},
		"at most, kept":   {row{name: "a", reference: sameTool, limit: &limit{ratio: true, most: 1.25}}, 1.25, "ok"},
		"at most, over":   {row{name: "a", reference: sameTool, limit: &limit{ratio: true, most: 1.2}}, 1.25, "over"},
		"at least, kept":  {row{name: "a", reference: sameTool, limit: &limit{ratio: true, least: 1.25}}, 1.25, "ok"},
		"at least, under": {row{name: "a", reference: sameTool, limit: &limit{ratio: true, least: 1.5}}, 1.25, "over"},
		"value, kept":     {row{name: "b", limit: &limit{most: 12e6}}, math.NaN(), "ok"},
		"value, over":     {row{name: "b", limit: &limit{most: 11e6}}, math.NaN(), "over"},
		"other row":       {row{name: "b", reference: ours, referenceRow: "a", limit: &limit{ratio: true, most: 1}}, 96000, "over"},
		"too little":      {row{name: "zero", reference: sameTool, limit: &limit{ratio: true, most: 1}}, math.NaN(), ""},
		"not measured":    {row{name: "c", reference: sameTool, limit: &limit{ratio: true, most: 1}}, math.NaN(), ""},
		"reference is":    {row{name: "b", reference: sameTool, limit: &limit{ratio: true, most: 1}}, math.NaN(), ""},
	} {
		assert.Equal(t, c.verdict, f.verdict(c.row), name)
		if math.IsNaN(c.ratio) {
			assert.True(t, math.IsNaN(f.ratio(c.row)), name)
		} else {
			assert.InDelta(t, c.ratio, f.ratio(c.row), 1e-9, name)
		}
	}
}

func TestPrint(t *testing.T) {
	t.Parallel()
	for expected, got := range map[string]string{
		"385 µs":      inMicroseconds.print(385.4),
		"57.6 ms":     inMicroseconds.print(57_583),
		"4.5 ms":      inMilliseconds.print(4.49),
		"1.56 s":      inMilliseconds.print(1556.8),
		"999/s":       perSecond.print(999),
		"1,234,567/s": perSecond.print(1234567),
		"10.4 MB":     inBytes.print(10_358_946),
	} {
		assert.Equal(t, expected, got)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	f := newFigures()
	f.add("speed", sameTool, 1234567)
	f.add("speed", ours, 2469134)
	table := f.table([]row{
		{name: "speed", unit: perSecond, reference: sameTool, limit: &limit{ratio: true, least: 1.5}},
		{name: "memory", unit: inBytes, limit: &limit{most: 12e6}},
	}, []string{sameTool, ours})
	assert.Equal(t, strings.Join([]string{
		"        go-sdk, same request  loopgrid-mcp   ratio      limit",
		"speed            1,234,567/s   2,469,134/s  2.00 ×   ≥ 1.50 ×  ok",
		"memory                                 n/a          ≤ 12.0 MB",
		"",
	}, "\n"), table)
}

func TestText(t *testing.T) {
	t.Parallel()
	f := newFigures()
	f.add(rowBinary, ours, 9e6)
	r := &report{options: &options{}, amounts: amounts{rounds: 5}, figures: f, rows: rows(fullRun(5)), names: []string{ours}}
	assert.True(t, strings.HasPrefix(r.text(), "loopgrid-mcp: medians of 5 interleaved rounds, "), r.text())
	assert.Contains(t, r.text(), "All figures are within the limits.")
	assert.Contains(t, r.text(), "memory after 200,000 calls")
	assert.Contains(t, r.text(), "get_evidence of 50 MB")
	f.add(rowBinary, ours, 13e6)
	assert.Contains(t, r.text(), "1 of the figures is over its limit.")
	f.add(rowIdle, ours, 13e6)
	assert.Contains(t, r.text(), "2 of the figures are over their limits.")
}

// What the service answers has to be right, or the bridge would be measured at telling what is wrong.
func TestService(t *testing.T) {
	t.Parallel()
	s, err := startService(t.Context(), 1000, 0)
	require.NoError(t, err)
	defer s.close()
	ask := func(method, path, body string) (int, string) {
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, "/api/v1/decisions/"+path, strings.NewReader(body)))
		return answer.Code, answer.Body.String()
	}
	for range 2 { // computed, then remembered
		code, answer := ask(http.MethodPost, decisionID+"/events", `{"event_type":"x","payload":{"b":1e2,"a":9007199254740993}}`)
		require.Equal(t, http.StatusOK, code, answer)
		commitment, err := evidence.Commitment([]byte(`{"a":9007199254740993,"b":100.0}`))
		require.NoError(t, err)
		require.NoError(t, evidence.CheckObject([]byte(answer)))
		assert.Contains(t, answer, `"payload_commitment":"`+commitment+`"`)
		assert.Contains(t, answer, `"payload":{"b":1e2,"a":9007199254740993}`)
	}
	code, _ := ask(http.MethodPost, decisionID+"/events", `{}`)
	assert.Equal(t, http.StatusBadRequest, code)
	code, answer := ask(http.MethodGet, decisionID+"/verify", "")
	assert.Equal(t, http.StatusOK, code)
	assert.JSONEq(t, verification, answer)
	large, err := startService(t.Context(), 1, 10_000)
	require.NoError(t, err)
	large.close()
	require.NoError(t, evidence.CheckObject(large.verify))
	assert.InDelta(t, 10_000, len(large.verify), 1000)
	code, _ = ask(http.MethodGet, "dec_other/verify", "")
	assert.Equal(t, http.StatusNotFound, code)

	code, answer = ask(http.MethodGet, decisionID+"/evidence", "")
	assert.Equal(t, http.StatusOK, code)
	archive, err := zip.NewReader(strings.NewReader(answer), int64(len(answer)))
	require.NoError(t, err)
	manifest, err := archive.Open("manifest.json")
	require.NoError(t, err)
	text, err := io.ReadAll(manifest)
	require.NoError(t, errors.Join(err, manifest.Close()))
	assert.Contains(t, string(text), decisionID)
}

func TestProc(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	now, peak, ok := memory(os.Getpid())
	require.True(t, ok)
	assert.Greater(t, now, 1e6)
	assert.GreaterOrEqual(t, peak, now/2)
	_, ok = cpu(os.Getpid())
	assert.True(t, ok)
	_, _, ok = memory(0)
	assert.False(t, ok)
	_, ok = cpu(0)
	assert.False(t, ok)
}
