package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// decisionID is the only decision that the service has.
const decisionID = "dec_0123456789abcdef01234567"

// service answers like LoopGrid, as fast as net/http can: it keeps nothing, computes each commitment once, and signs nothing. It runs in
// this process, so that what is measured is the way to it.
type service struct {
	url    string
	server *http.Server
	bundle []byte // an evidence ZIP
	verify []byte // the answer to a verify

	mu     sync.Mutex
	events map[string][]byte // answers by payload
}

// verification is the answer to a verify, and stands in the bundle too.
const verification = `{"valid":true,"checked_events":6,"total_ledger_events":10,"failures":[],"key_id":"ed25519:0123456789abcdef","signature_algorithm":"Ed25519",` +
	`"signer_provider":"local_ed25519","workspace_id":"default","algorithm":"Ed25519 + SHA-256 workspace hash chain","chain_scope":"workspace"}`

// startService listens on a free port of the loopback. The bundle, and what a verification has to say of failures, have about that many bytes.
func startService(ctx context.Context, bundleBytes, failureBytes int) (*service, error) {
	bundle, err := makeBundle(bundleBytes)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the service: %w", err)
	}
	const failure = `{"event_id":"evt_0123456789abcdef01234567","reason":"The signature does not match the event."},`
	s := &service{url: "http://" + listener.Addr().String(), bundle: bundle, verify: []byte(verification), events: map[string][]byte{}}
	if n := failureBytes / len(failure); n > 0 {
		failures := strings.TrimSuffix(strings.Repeat(failure, n), ",")
		s.verify = []byte(strings.NewReplacer(`"valid":true`, `"valid":false`, `"failures":[]`, `"failures":[`+failures+`]`).Replace(verification))
	}
	s.server = serve(listener, s)
	return s, nil
}

// serve serves until the server is closed.
func serve(listener net.Listener, handler http.Handler) *http.Server {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends with Close
	return server
}

func (s *service) close() { _ = s.server.Close() }

// ServeHTTP answers the three routes that the measured tools use.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := s.verify
	w.Header().Set("Content-Type", "application/json")
	switch rest, ok := strings.CutPrefix(r.URL.Path, "/api/v1/decisions/"+decisionID+"/"); {
	case ok && r.Method == http.MethodPost && rest == "events":
		body, err := readBody(r)
		if err == nil {
			answer, err = s.event(body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	case ok && r.Method == http.MethodGet && rest == "verify":
	case ok && r.Method == http.MethodGet && rest == "evidence":
		w.Header().Set("Content-Type", "application/zip")
		answer = s.bundle
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = w.Write(answer)
}

func readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength < 0 {
		return io.ReadAll(r.Body)
	}
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, body)
	return body, err
}

// event is the signed event of LoopGrid's full privacy mode that answers an append.
func (s *service) event(body []byte) ([]byte, error) {
	payload := evidence.Get(body, "payload")
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer := s.events[string(payload)]; answer != nil {
		return answer, nil
	}
	if payload == nil {
		return nil, errors.New("there is no payload")
	}
	commitment, err := evidence.Commitment(payload)
	if err != nil {
		return nil, err
	}
	answer := fmt.Appendf(nil, `{"event_id":"evt_0123456789abcdef01234567","decision_id":"%[1]s","workspace_id":"default","seq":9,"event_type":"tool_executed",`+
		`"occurred_at":"2026-09-19T10:00:00.123456+00:00","actor":{"type":"tool","id":"external-system"},"privacy_mode":"full","payload_commitment":"%[2]s",`+
		`"payload":%[3]s,"proof":{"content_hash":"%[2]s","previous_chain_hash":"%[2]s","chain_hash":"%[2]s","signature":"%[4]s",`+
		`"key_id":"ed25519:0123456789abcdef","signature_algorithm":"Ed25519"},"signed_payload":{"disclosure":"encrypted","payload_ref":"pld_0123456789abcdef01234567",`+
		`"payload_sha256":"%[2]s"},"payload_available":true,"payload_status":{"mode":"encrypted_vault","payload_id":"pld_0123456789abcdef01234567","available":true,`+
		`"sha256":"%[2]s","expires_at":"2026-12-18T10:00:00.123456+00:00","erased_at":null,"erasure_reason":null}}`,
		decisionID, commitment, payload, strings.Repeat("A", 86)+"==")
	s.events[string(payload)] = answer
	return answer, nil
}

// makeBundle makes an evidence ZIP that is as large as it is told by random bytes, which nothing on the way can compress.
func makeBundle(size int) ([]byte, error) {
	const lifecycle = `{"state":"evidence_complete","label":"Evidence complete","terminal":true,"expected_next":[]}`
	filling := make([]byte, size)
	_, _ = rand.Read(filling) // never fails
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	entries := []struct{ name, text string }{
		{"manifest.json", `{"format":"LoopGrid Decision Evidence Bundle","bundle_schema":"loopgrid/evidence-bundle/2","decision_id":"` + decisionID + `",` +
			`"payloads_included":false,"lifecycle":` + lifecycle + `,"integrity":` + verification + `}`},
		{"verification.json", `{"integrity":` + verification + `}`},
		{"lifecycle.json", lifecycle},
		{"filling.bin", string(filling)},
	}
	var files []string
	for _, entry := range entries {
		files = append(files, fmt.Sprintf(`"%s":"%x"`, entry.name, sha256.Sum256([]byte(entry.text))))
	}
	entries = append(entries, struct{ name, text string }{"bundle-attestation.json", `{"files":{` + strings.Join(files, ",") + `}}`})
	for _, entry := range entries {
		w, err := archive.CreateHeader(&zip.FileHeader{Name: entry.name, Method: zip.Store})
		if err == nil {
			_, err = io.WriteString(w, entry.text)
		}
		if err != nil {
			return nil, fmt.Errorf("make a bundle: %w", err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("make a bundle: %w", err)
	}
	return out.Bytes(), nil
}
