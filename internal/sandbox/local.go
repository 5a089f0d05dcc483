package sandbox

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/loopgridio/loopgrid-mcp/internal/address"
	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
	"github.com/loopgridio/loopgrid-mcp/internal/text"
)

// Local returns the sandbox for use on one machine. No web page may reach it, not even by pointing a name of its own at this machine's address
// (DNS rebinding): the Host of a request must be a loopback name or address or one that the sandbox listens on, and its Origin, which
// browsers send with everything but plain reads, must be the sandbox itself. If it listens on every address of the machine, any Host that is an
// address is accepted.
func (s *Server) Local(listening ...string) http.Handler {
	hosts := make([]string, len(listening))
	for i, hostPort := range listening {
		var err error
		if hosts[i], _, err = net.SplitHostPort(hostPort); err != nil {
			hosts[i] = hostPort
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := (&url.URL{Host: r.Host}).Hostname()
		switch origin, sent := r.Header["Origin"]; {
		case !slices.ContainsFunc(hosts, func(listening string) bool { return isLocal(host, listening) }):
			forbid(w, fmt.Sprintf("The sandbox does not answer to the name %q. Use localhost or 127.0.0.1, or start it with --addr and that name.",
				text.Clean(host, 80)))
		case sent && (len(origin) != 1 || !strings.EqualFold(origin[0], "http://"+r.Host)):
			forbid(w, "The sandbox takes no requests from other web pages.")
		default:
			s.ServeHTTP(w, r)
		}
	})
}

// isLocal says whether a Host names a sandbox that listens on another host, or on all if that is empty.
func isLocal(host, listening string) bool {
	if address.IsLoopback(host) {
		return true
	}
	if ip, err := netip.ParseAddr(listening); listening == "" || err == nil && ip.IsUnspecified() {
		_, err := netip.ParseAddr(host)
		return err == nil
	}
	return host != "" && strings.EqualFold(host, listening)
}

func forbid(w http.ResponseWriter, sentence string) {
	refused := refusal{status: http.StatusForbidden, detail: evidence.Text(sentence)}
	w.Header().Set(Header, "1")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write(refused.answer().body) // The client may be gone.
}

// bodyReader counts the bytes of a request body that are held in memory. All bodies share one bound, so that many unfinished ones cannot fill it.
type bodyReader struct {
	s    *Server
	from io.Reader
	held int64
}

func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.held += int64(n)
	if b.s.held += int64(n); b.s.held > b.s.limits.BodiesBytes {
		return n, errBusy()
	}
	return n, err
}

// release gives the request's bytes back.
func (b *bodyReader) release() {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.s.held -= b.held
}

func errBusy() *refusal {
	return &refusal{
		status: http.StatusServiceUnavailable, detail: evidence.Text("The sandbox is busy with other requests. Try again in a second."),
		header: [][2]string{{"Retry-After", "1"}},
	}
}

// send counts an answer until sent, and returns another one if too much is waiting for clients that do not read.
func (s *Server) send(a *answer) *answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unread > 0 && s.unread+int64(len(a.body)) > s.limits.AnswersBytes {
		a = errBusy().answer()
	}
	s.unread += int64(len(a.body))
	return a
}

func (s *Server) sent(a *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unread -= int64(len(a.body))
}
