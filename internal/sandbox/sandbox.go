// Package sandbox is LoopGrid 0.8.1 in memory, for evaluation and for every test of this project: the routes that the bridge, an evaluator and
// LoopGrid's Python client use, with the statuses, bodies, rules, numbers, chains and signatures of the service. Where LoopGrid has a trap, the
// sandbox has it too, so what passes here passes there. The tests replay recorded exchanges with the real service.
//
// Nobody can mistake it for LoopGrid: its version is [Version], every answer carries the header X-LoopGrid-Sandbox, it makes its signing key at
// start, and nothing survives the process.
//
// It knows HTTP, LoopGrid's rules and, through package evidence, LoopGrid's canonical JSON. It must not know MCP, the bridge or the bridge's
// client, and it opens no socket, file or process: [Server] is an [http.Handler].
package sandbox

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// Version is what the sandbox answers as its version and exports as software_version.
const Version = "0.8.1-sandbox"

// Header is set to "1" on every answer, so that a client can tell the sandbox from LoopGrid.
const Header = "X-LoopGrid-Sandbox"

// profile is the evidence profile of LoopGrid 0.8.
const profile = "3.0-draft"

// Options change what a sandbox does. The zero value is LoopGrid's evaluation container as it starts: without credentials, with its limits.
type Options struct {
	// Auth requires X-LoopGrid-Key with the scopes of each route. Without it a missing key is accepted and a wrong one refused, as in LoopGrid.
	Auth bool
	// PostgreSQL makes the sandbox behave like LoopGrid on PostgreSQL, and say so in GET /api/v1/system/info; otherwise it is LoopGrid on SQLite.
	// An append locks the row of its workspace, so overlapping writes never fork a chain. The checks before it are not locked: two writes at once
	// both pass those of the lifecycle, of "already reviewed" and of the idempotency key, and a create whose key was bound in the meantime is
	// answered with a decision_id that does not exist.
	PostgreSQL bool
	// Now is the clock of the ledger, the keys and the rate limits; nil means time.Now.
	Now func() time.Time
	// Log gets one line for each recorded event; nil means none. One request at a time writes to it.
	Log io.Writer
	// Limits bound what clients can send and fill.
	Limits Limits
	// Faults are what a client has to survive; the zero value is none.
	Faults Faults
}

// Limits bound a sandbox. A zero field has the default named there.
type Limits struct {
	// IngestPerMinute is how many writes under /api/v1/decisions a key, or else a client's address, may send in a minute: 600.
	IngestPerMinute int
	// OtherPerMinute is the same for all other writes, policies/evaluate among them: 120.
	OtherPerMinute int
	// BodyBytes is the largest body by its Content-Length: 2,000,000. A body without one may be eight times as long; LoopGrid has no bound there.
	BodyBytes int64
	// BodiesBytes is how many bytes of request bodies are held at once before further ones are answered with 503: 32 MiB.
	BodiesBytes int64
	// AnswersBytes is how many bytes of answers wait for clients to read them before further requests are answered with 503: 256 MiB. A single
	// answer may be longer.
	AnswersBytes int64
	// Events is how many events the ledger holds before writes are answered with 507: 100,000.
	Events int
	// MemoryBytes is how much evidence and set-up the sandbox keeps before writes are answered with 507: 256 MiB, roughly.
	MemoryBytes int64
}

// unsized is the longest body of a request without a Content-Length.
func (l Limits) unsized() int64 { return 8 * l.BodyBytes }

func (l Limits) withDefaults() Limits {
	if l.IngestPerMinute == 0 {
		l.IngestPerMinute = 600
	}
	if l.OtherPerMinute == 0 {
		l.OtherPerMinute = 120
	}
	if l.BodyBytes == 0 {
		l.BodyBytes = 2_000_000
	}
	if l.BodiesBytes == 0 {
		l.BodiesBytes = 32 << 20
	}
	if l.AnswersBytes == 0 {
		l.AnswersBytes = 256 << 20
	}
	if l.Events == 0 {
		l.Events = 100_000
	}
	if l.MemoryBytes == 0 {
		l.MemoryBytes = 256 << 20
	}
	return l
}

// Server is one sandbox. It is safe for concurrent use and needs no goroutine of its own.
type Server struct {
	auth     bool
	postgres bool
	now      func() time.Time
	limits   Limits
	faults   Faults
	routes   []route
	rates    rateLimiter

	started time.Time
	key     ed25519.PrivateKey
	keyID   string
	keyPEM  []byte

	log   io.Writer
	logMu sync.Mutex

	// mu guards what follows. It is never held during a pause: a goroutine waiting for a mutex stops the clock of testing/synctest.
	mu         sync.Mutex
	workspaces map[string]*workspace
	decisions  map[string]*decision
	// created are the decisions in the order of their first events.
	created []*decision
	// policies are those of a workspace, oldest first. LoopGrid accepts policies for workspaces that do not exist.
	policies map[string][]*policy
	// apiKeys are indexed by the key itself.
	apiKeys map[string]*apiKey
	// suspended is closed when the service resumes; it is nil while the service runs.
	suspended chan struct{}
	seq       int
	bytes     int64
	// held is how many bytes of request bodies are in memory.
	held int64
	// unread is how many bytes of answers are on their way to clients.
	unread int64
	stats  Stats
	// lines are those of the log that are not written yet.
	lines []string
}

// New returns an empty sandbox with a signing key of its own, the workspace "default" and its refund policy.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // crypto/rand does not fail.
	}
	s := &Server{
		auth:       o.Auth,
		postgres:   o.PostgreSQL,
		now:        o.Now,
		log:        o.Log,
		limits:     o.Limits.withDefaults(),
		faults:     o.Faults,
		routes:     routes(),
		rates:      rateLimiter{hits: map[string][]time.Time{}},
		started:    o.Now(),
		key:        key,
		workspaces: map[string]*workspace{},
		decisions:  map[string]*decision{},
		policies:   map[string][]*policy{},
		apiKeys:    map[string]*apiKey{},
	}
	sum := sha256.Sum256(s.PublicKey())
	s.keyID = "ed25519:" + hex.EncodeToString(sum[:8])
	der, err := x509.MarshalPKIXPublicKey(s.PublicKey())
	if err != nil {
		panic(err) // It is an Ed25519 key.
	}
	s.keyPEM = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workspace(defaultWorkspace)
	s.policies[defaultWorkspace] = []*policy{s.refundPolicy()}
	return s
}

// CreateKey makes a service key for a workspace and returns it: "lg_live_" and 38 characters. The scopes are "ingest", "read", "review" and
// "admin", which includes the others; none means ingest and read. The workspace is created if it does not exist; "" is "default".
func (s *Server) CreateKey(workspace string, scopes ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newKey(cmp.Or(workspace, defaultWorkspace), scopes, 0).secret
}

// PublicKey returns the key that verifies every signature of this sandbox.
func (s *Server) PublicKey() ed25519.PublicKey {
	public, _ := s.key.Public().(ed25519.PublicKey)
	return public
}

// Event is one event of the ledger, as tests read it.
type Event struct {
	Seq                                                       int64
	EventID, DecisionID, WorkspaceID, EventType               string
	OccurredAt                                                string
	ActorType, ActorID                                        string
	PrivacyMode                                               string
	IdempotencyKey                                            string
	PayloadCommitment                                         string
	ContentHash, PreviousChainHash, ChainHash, Signature, Key string
	// Payload is the clear payload of a full-mode event as long as it is available, else the signed one. Its floats have Python's spelling.
	Payload jsontext.Value
	// SignedPayload is the payload that is part of the signed body.
	SignedPayload jsontext.Value
}

// Events returns the events of a workspace in the order of the ledger.
func (s *Server) Events(workspace string) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var events []Event
	for _, e := range s.ledger(workspace) {
		key, _ := evidence.Unquote(e.idempotencyKey)
		events = append(events, Event{
			Seq: int64(e.seq), EventID: e.id, DecisionID: e.decisionID, WorkspaceID: e.workspaceID, EventType: e.kind,
			OccurredAt: e.occurredAt, ActorType: e.actorType, ActorID: e.actorID, PrivacyMode: e.privacyMode,
			PayloadCommitment: e.commitment, ContentHash: e.contentHash, PreviousChainHash: e.previousHash, ChainHash: e.chainHash,
			Signature: e.signature, Key: e.keyID, Payload: slices.Clone(e.shown()), SignedPayload: slices.Clone(e.payload),
			IdempotencyKey: key,
		})
	}
	return events
}

// Verify checks the chain of a workspace as the verify routes do and reports whether it is intact. It does not count as a scan.
func (s *Server) Verify(workspace string) bool {
	s.mu.Lock()
	events := s.ledger(workspace)
	s.mu.Unlock()
	failures, err := s.check(events)
	return err == nil && len(failures) == 0
}

// Stats count what tests ask for.
type Stats struct {
	// Writes is how many writes were begun: requests that reached the ledger, whether or not they appended.
	Writes int
	// Overlaps is how many of these were begun while another write of the same workspace was in progress.
	Overlaps int
	// Scans is how often a whole chain was checked for a request.
	Scans int
}

// Stats returns the counts so far.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// randomHex returns n random hexadecimal digits.
func randomHex(n int) string {
	random := make([]byte, (n+1)/2)
	_, _ = rand.Read(random) // It never fails.
	return hex.EncodeToString(random)[:n]
}

// randomKey returns a service key.
func randomKey() string {
	random := make([]byte, 28)
	_, _ = rand.Read(random) // It never fails.
	return "lg_live_" + base64.RawURLEncoding.EncodeToString(random)
}

// charge takes memory for something that is kept. It reports whether there was enough.
func (s *Server) charge(size int) bool {
	const overhead = 1 << 10
	if s.bytes+int64(size)+overhead > s.limits.MemoryBytes {
		return false
	}
	s.bytes += int64(size) + overhead
	return true
}

// isoTime formats a time as Python's isoformat does: microseconds, left out where they are zero.
func isoTime(t time.Time) string {
	t = t.UTC()
	if t.Nanosecond() < 1000 {
		return t.Format("2006-01-02T15:04:05")
	}
	return t.Format("2006-01-02T15:04:05.000000")
}

// sortedScopes returns each scope once, in order.
func sortedScopes(scopes []string) []string {
	set := map[string]bool{}
	for _, scope := range scopes {
		set[scope] = true
	}
	return slices.Sorted(maps.Keys(set))
}

var _ http.Handler = (*Server)(nil)
