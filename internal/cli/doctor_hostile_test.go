package cli_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// answerRaw answers each connection, once its request has come, with what is written by write until the client hangs up.
func answerRaw(t *testing.T, write func(net.Conn) error) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				in := bufio.NewReader(conn)
				if _, err := http.ReadRequest(in); err == nil && write(conn) == nil {
					_, _ = in.ReadByte() // until the client hangs up
				}
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

// Whatever the service does, the doctor ends: a test that hangs fails.
func TestDoctorEndsWhateverTheServiceDoes(t *testing.T) {
	forever := func(first, again string) func(net.Conn) error {
		return func(conn net.Conn) error {
			_, err := conn.Write([]byte(first))
			for err == nil {
				_, err = conn.Write([]byte(again))
			}
			return err
		}
	}
	once := func(text string) func(net.Conn) error {
		return func(conn net.Conn) error {
			_, err := conn.Write([]byte(text))
			return err
		}
	}
	for name, write := range map[string]func(net.Conn) error{
		"switching protocols": once("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"),
		"nothing":             once(""),
		"half a header":       once("HTTP/1.1 200 OK\r\nContent-Ty"),
		"half a body":         once("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"),
		"flood of body":       forever("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", strings.Repeat(" ", 1<<16)),
		"flood of an error":   forever("HTTP/1.1 500 Oh\r\nContent-Type: application/json\r\n\r\n", strings.Repeat(" ", 1<<16)),
		"endless headers":     forever("HTTP/1.1 200 OK\r\n", "X-Y: "+strings.Repeat("z", 1000)+"\r\n"),
		"endless informing":   forever("", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
		"endless line":        forever("HTTP/1.1 200 ", strings.Repeat("z", 1000)),
	} {
		t.Run(name, func(t *testing.T) {
			quiet(t)
			t.Setenv("LOOPGRID_BASE_URL", answerRaw(t, write))
			t.Setenv("LOOPGRID_MCP_TIMEOUT_SECONDS", "0.2")
			code, out := examine(t)
			assert.Equal(t, 1, code, out)
			assert.Contains(t, out, "[FAIL] ")
		})
	}
}

// A service that sends the key back, whole or in part and however it is spelled, gets it into no line.
func TestDoctorShowsNoPartOfTheKey(t *testing.T) { //nolint:paralleltest // it sets the environment of the process
	const random = "Q7x-Vb2_kLm9ZpR4sTw8YcNf3HdJgE6uAeXo1i"
	const key = "lg_live_" + random
	var escaped strings.Builder
	for _, b := range []byte(key) {
		fmt.Fprintf(&escaped, `\u%04x`, b)
	}
	spellings := []string{
		key, random[3:20], escaped.String(), `\` + escaped.String(), url.QueryEscape(key), strings.ReplaceAll(key, "7", "%37"),
		base64.StdEncoding.EncodeToString([]byte(key)), base64.RawURLEncoding.EncodeToString([]byte("user:" + key)), "x" + key + "y" + key,
	}
	s := sandbox.New(sandbox.Options{})
	for _, spelling := range spellings {
		for _, route := range []string{"/health", "/ready", "/api/v1/system/info", "/api/v1/decisions", "/verify"} {
			for _, status := range []int{200, 307, 500} {
				quiet(t)
				t.Setenv("LOOPGRID_SERVICE_KEY", key)
				t.Setenv("LOOPGRID_MCP_TIMEOUT_SECONDS", "2")
				t.Setenv("LOOPGRID_BASE_URL", serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !strings.HasSuffix(r.URL.Path, route) {
						s.ServeHTTP(w, r)
						return
					}
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("Location", "http://"+strings.ReplaceAll(spelling, `\`, "")+".example/"+spelling+"/health")
					w.WriteHeader(status)
					const answer = `{"service":"loopgrid","version":"V","evidence_profile":"V","database":"V","signer":"V","detail":"V","valid":false,` +
						`"failures":[{"event_id":"V","reasons":["V"]}],"environment":"V"}`
					_, _ = w.Write([]byte(strings.ReplaceAll(answer, "V", spelling)))
				})))
				_, out := examine(t)
				for i := range len(random) - 7 {
					part := random[i : i+8]
					require.NotContains(t, out, part, "%s %s %d", spelling, route, status)
				}
				require.NotContains(t, out, escaped.String()[48:96], "%s %s %d", spelling, route, status)
			}
		}
	}
}
