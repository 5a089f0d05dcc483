package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// request is one HTTP request on its way through a route.
type request struct {
	*http.Request
	// params are the values of the route's {…} segments, in order.
	params []string
	// form is the validated body of a route that has one.
	form *form
}

// answer is what a route answers.
type answer struct {
	status      int
	contentType string
	header      [][2]string
	body        []byte
}

// answerJSON answers 200 with JSON text in the spelling of the API. LoopGrid's serialiser fails on a payload that nests too deep.
func answerJSON(stored jsontext.Value, payloads ...jsontext.Value) (*answer, error) {
	for _, payload := range payloads {
		if evidence.NestsDeeper(payload, maxAnswerNesting) {
			return nil, errInternal
		}
	}
	body, err := respell(stored, appendAnswerFloat)
	return &answer{status: http.StatusOK, contentType: "application/json", body: body}, err
}

// refusal is an error answer. Its detail is JSON text.
type refusal struct {
	status int
	detail jsontext.Value
	header [][2]string
}

func (r *refusal) Error() string { return fmt.Sprintf("%d %s", r.status, r.detail) }

// refuse returns a refusal with a sentence.
func refuse(status int, sentence string) error {
	return &refusal{status: status, detail: evidence.Text(sentence)}
}

// errInternal is an uncaught exception of the service.
var errInternal = errors.New("internal server error")

// errFull is the sandbox's alone: LoopGrid has a disk.
func errFull() error {
	return refuse(http.StatusInsufficientStorage, "The sandbox is full: it keeps its evidence in memory. Start it again.")
}

func (r *refusal) answer() *answer {
	return &answer{status: r.status, contentType: "application/json", header: r.header, body: evidence.Object(kv("detail", r.detail))}
}

func internalError() *answer {
	return &answer{status: http.StatusInternalServerError, contentType: "text/plain; charset=utf-8", body: []byte("Internal Server Error")}
}

// ServeHTTP answers a request as LoopGrid does: first the size, then the rate limit, then the route, the body, and last the credential.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.pause()
	a := s.answer(r)
	s.pause()
	s.writeLog()
	a = s.send(a)
	defer s.sent(a)
	if r.Body != nil {
		// A client whose body is not read should see the answer, not a reset connection.
		_, _ = io.CopyN(io.Discard, r.Body, s.limits.unsized())
	}
	h := w.Header()
	h.Set(Header, "1")
	// LoopGrid sends its 500 from outside the middleware that sets the request id.
	if a.status != http.StatusInternalServerError {
		id := r.Header.Get("X-Request-ID")
		if id == "" {
			id = "req_" + randomHex(20)
		}
		h.Set("X-Request-ID", id)
	}
	if a.contentType != "" {
		h.Set("Content-Type", a.contentType)
	}
	for _, field := range a.header {
		h.Set(field[0], field[1])
	}
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(a.body) // The client may be gone.
	}
}

func (s *Server) answer(r *http.Request) *answer {
	if r.ContentLength > s.limits.BodyBytes {
		return s.tooLarge()
	}
	path := strings.ToValidUTF8(r.URL.Path, "\ufffd")
	if wait := s.limit(r, path); wait > 0 {
		seconds := strconv.Itoa(wait)
		return &answer{
			status: http.StatusTooManyRequests, contentType: "application/json", header: [][2]string{{"Retry-After", seconds}},
			body: []byte(`{"detail": "Rate limit exceeded", "retry_after_seconds": ` + seconds + `}`),
		}
	}
	route, params, allow := s.route(r.Method, path)
	switch {
	case route != nil:
	case allow != "":
		refused := &refusal{http.StatusMethodNotAllowed, evidence.Text("Method Not Allowed"), [][2]string{{"Allow", allow}}}
		return refused.answer()
	default:
		return s.unknown(r, path)
	}
	a, err := s.run(route, &request{Request: r, params: params})
	var refused *refusal
	switch {
	case err == nil:
		return a
	case errors.As(err, &refused):
		return refused.answer()
	case errors.Is(err, errTooLarge):
		return s.tooLarge()
	}
	return internalError()
}

func (s *Server) tooLarge() *answer {
	body := fmt.Appendf(nil, `{"detail": "Request body too large", "max_bytes": %d}`, s.limits.BodyBytes)
	return &answer{status: http.StatusRequestEntityTooLarge, contentType: "application/json", body: body}
}

// limit counts a write and returns how many seconds the client should wait if it is one too many, else 0.
func (s *Server) limit(r *http.Request, path string) (wait int) {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return 0
	}
	bucket, limit := "other", s.limits.OtherPerMinute
	if strings.HasPrefix(path, "/api/v1/decisions") {
		bucket, limit = "ingest", s.limits.IngestPerMinute
	}
	client := r.Header.Get(keyHeader)
	if client == "" {
		client = r.RemoteAddr
		if host, _, err := net.SplitHostPort(client); err == nil {
			client = host
		}
	}
	return s.rates.take(bucket+" "+client, limit, s.now())
}

// route is one route. {} in its pattern is any one segment.
type route struct {
	method, pattern string
	// body validates the request's body; nil where the route takes none.
	body func(*form)
	run  func(*Server, *request) (*answer, error)
}

// routes lists all routes in LoopGrid's order: if only the method is wrong, the first route with that path names the allowed one.
func routes() []route {
	const get, post = http.MethodGet, http.MethodPost
	return []route{
		{get, "/", nil, (*Server).home},
		{get, "/changes", nil, (*Server).changes},
		{get, "/health", nil, (*Server).health},
		{get, "/ready", nil, (*Server).ready},
		{get, "/api/v1/system/info", nil, (*Server).systemInfo},
		{post, "/api/v1/workspaces", workspaceForm, (*Server).createWorkspace},
		{post, "/api/v1/workspaces/{}/keys", keyForm, (*Server).createKey},
		{get, "/api/v1/workspaces/{}/policies", nil, (*Server).listPolicies},
		{post, "/api/v1/workspaces/{}/policies", policyForm, (*Server).createPolicy},
		{post, "/api/v1/workspaces/{}/policies/evaluate", evaluateForm, (*Server).evaluatePolicy},
		{post, "/api/v1/decisions", decisionForm, (*Server).createDecision},
		{get, "/api/v1/decisions", nil, (*Server).listDecisions},
		{get, "/api/v1/decisions/{}", nil, (*Server).getDecision},
		{post, "/api/v1/decisions/{}/events", eventForm, (*Server).appendEvent},
		{get, "/api/v1/reviews", nil, (*Server).listReviews},
		{post, "/api/v1/decisions/{}/review", reviewForm, (*Server).review},
		{get, "/api/v1/integrity/verify", nil, (*Server).verifyWorkspace},
		{get, "/api/v1/decisions/{}/verify", nil, (*Server).verifyDecision},
		{get, "/api/v1/public-key.pem", nil, (*Server).publicKey},
		{post, "/api/v1/workspaces/{}/checkpoint", nil, (*Server).createCheckpoint},
		{get, "/api/v1/workspaces/{}/audit", nil, (*Server).audit},
		{get, "/api/v1/decisions/{}/evidence", nil, (*Server).exportEvidence},
		{get, "/api/v1/decisions/{}/payload-status", nil, (*Server).payloadStatus},
		{post, "/api/v1/decisions/{}/payload/erase", eraseForm, (*Server).erasePayloads},
	}
}

// route finds the route of a request. If only the method is wrong, allow names the right one.
func (s *Server) route(method, path string) (found *route, params []string, allow string) {
	for i := range s.routes {
		params, ok := match(s.routes[i].pattern, path)
		switch {
		case !ok:
		case s.routes[i].method == method:
			return &s.routes[i], params, ""
		case allow == "":
			allow = s.routes[i].method
		}
	}
	return nil, nil, allow
}

// match compares a decoded path with a pattern. An encoded slash separates segments like any other.
func match(pattern, path string) (params []string, ok bool) {
	for {
		want, restPattern, morePattern := strings.Cut(pattern, "/")
		have, restPath, morePath := strings.Cut(path, "/")
		switch {
		case morePattern != morePath:
			return nil, false
		case want == "{}" && have != "":
			params = append(params, have)
		case want != have:
			return nil, false
		}
		if !morePattern {
			return params, true
		}
		pattern, path = restPattern, restPath
	}
}

// unknown answers a path without a route: with a redirect if only a slash at the end is wrong.
func (s *Server) unknown(r *http.Request, path string) *answer {
	other := path + "/"
	if strings.HasSuffix(path, "/") {
		other = strings.TrimRight(path, "/")
	}
	if route, _, allow := s.route(r.Method, other); route != nil || allow != "" {
		target := url.URL{Scheme: "http", Host: r.Host, Path: other, RawQuery: r.URL.RawQuery}
		if r.TLS != nil {
			target.Scheme = "https"
		}
		return &answer{status: http.StatusTemporaryRedirect, header: [][2]string{{"Location", target.String()}}}
	}
	refused := &refusal{status: http.StatusNotFound, detail: evidence.Text("Not Found")}
	return refused.answer()
}

var errTooLarge = errors.New("body too large")

// run reads and validates the body of a request, then runs its route.
func (s *Server) run(route *route, r *request) (*answer, error) {
	if route.body != nil {
		reader := &bodyReader{s: s, from: io.LimitReader(r.Body, s.limits.unsized()+1)}
		defer reader.release()
		body, err := io.ReadAll(reader)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, refuse(http.StatusRequestTimeout, "The body of the request did not arrive in time.")
		case err != nil:
			return nil, fmt.Errorf("read body: %w", err)
		case reader.held > s.limits.unsized():
			return nil, errTooLarge
		}
		if r.form, err = readForm(r.Header.Get("Content-Type"), body); err != nil {
			return nil, err
		}
		route.body(r.form)
		if err := r.form.err(); err != nil {
			return nil, err
		}
	}
	return route.run(s, r)
}

func (s *Server) health(*request) (*answer, error) {
	uptime := strconv.FormatFloat(s.now().Sub(s.started).Seconds(), 'f', 1, 64)
	return answerJSON(evidence.Object(
		kv("ok", true), kv("service", "loopgrid"), kv("version", Version), kv("evidence_profile", profile),
		kv("uptime_seconds", jsontext.Value(uptime)),
	))
}

func (s *Server) ready(*request) (*answer, error) {
	return answerJSON(evidence.Object(
		kv("ready", true), kv("database", "ok"), kv("signer", signerProvider), kv("payload_vault", "aes-256-gcm"),
		kv("timestamping", "not_configured"), kv("version", Version),
	))
}

// systemInfo is GET /api/v1/system/info. The database provider is the one whose behaviour the sandbox has.
func (s *Server) systemInfo(*request) (*answer, error) {
	provider := "sqlite"
	if s.postgres {
		provider = "postgresql"
	}
	return answerJSON(evidence.Object(
		kv("version", Version), kv("evidence_profile", profile), kv("stage", "sandbox"), kv("environment", "development"),
		kv("database", evidence.Object(kv("provider", provider))), kv("signer", s.signer()),
		kv("payload_vault", evidence.Object(kv("key_source", "memory"))), kv("timestamping", evidence.Object(kv("provider", "not_configured"))),
		kv("mcp_proxy", evidence.Object(kv("enabled", false))), kv("lifecycle", evidence.Object(kv("enforced", true))),
		kv("deployment_security", evidence.Object(kv("human_auth_required", s.auth))),
	))
}

func (s *Server) publicKey(*request) (*answer, error) {
	return &answer{status: http.StatusOK, contentType: "application/x-pem-file", body: s.keyPEM}, nil
}
