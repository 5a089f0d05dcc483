// Package faultproxy sits between a client and a service in tests and does on purpose what networks, proxies and services do now and then:
// it refuses, loses, delays, cuts and replaces answers, with the request served, not served or still being served.
//
// It knows HTTP and nothing about what is sent over it. Only tests and benchmarks import it.
package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Fault is what happens to one request. The zero value is no fault: the service's answer is passed on at once.
type Fault struct {
	// Delay is how long the request is held up on its way to the service.
	Delay time.Duration
	// Reach is what the service gets of the request.
	Reach Reach
	// Lag is how long after the reply a Lagging request arrives at the service.
	Lag time.Duration
	// Reply is what the client gets.
	Reply Reply
	// Status, Header and Body are those of a Replaced answer.
	Status int
	Header http.Header
	Body   string
}

// Reach is what the service gets of a request.
type Reach int

const (
	// Served requests are handled before the client gets its reply.
	Served Reach = iota
	// Lagging requests arrive after the client got its reply or gave up: the service is still at work then.
	Lagging
	// Withheld requests never arrive.
	Withheld
)

// Reply is what the client gets.
type Reply int

const (
	// Relayed is the service's answer. If the request was not served, it is Dropped.
	Relayed Reply = iota
	// Refused is no connection: nothing is sent, whatever Reach says. A TCP proxy has accepted already: there it is Dropped and Withheld.
	Refused
	// Dropped ends the connection without an answer.
	Dropped
	// Truncated is the service's answer, but the connection ends in the middle of the body.
	Truncated
	// Silent is nothing at all, until the client gives up.
	Silent
	// Replaced is the answer that the fault holds.
	Replaced
)

// String describes the fault in a few words, for the log of a test.
func (f Fault) String() string {
	reply := [...]string{"relayed", "refused", "dropped", "truncated", "silent", "answered " + strconv.Itoa(f.Status)}[f.Reply]
	reach := [...]string{"served", "lagging " + f.Lag.String(), "withheld"}[f.Reach]
	text := reach + ", " + reply
	if f.Reply == Refused {
		text = reply
	}
	if f.Delay > 0 {
		text += " after " + f.Delay.String()
	}
	return text
}

// Answer is a fault that answers instead of the service, which never gets the request.
func Answer(status int, contentType, body string) Fault {
	return Fault{Reach: Withheld, Reply: Replaced, Status: status, Header: http.Header{"Content-Type": {contentType}}, Body: body}
}

// Plan chooses the fault of each request. It is called for one request at a time and must not change it.
type Plan func(*http.Request) Fault

// Script is the plan that gives these faults to the first requests, in order, and none to later ones.
func Script(faults ...Fault) Plan {
	return func(*http.Request) Fault {
		if len(faults) == 0 {
			return Fault{}
		}
		next := faults[0]
		faults = faults[1:]
		return next
	}
}

// Proxy passes requests to a service and treats them as its plan says. As an [http.RoundTripper] it needs no network, works inside a
// testing/synctest bubble, and reports the connection to httptrace as a real transport does. As an [http.Handler] it is a proxy for a
// server.
type Proxy struct {
	service http.Handler

	mu      sync.Mutex
	plan    Plan
	running int           // requests that the service is at work on
	idle    chan struct{} // closed when there are none left; nil while nobody waits
}

// New returns a proxy in front of a service. For a service behind a URL use [net/http/httputil.NewSingleHostReverseProxy].
func New(service http.Handler, plan Plan) *Proxy { return &Proxy{service: service, plan: plan} }

// SetPlan replaces the plan for the requests to come.
func (p *Proxy) SetPlan(plan Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = plan
}

// Wait waits until the service has finished all requests, lagging ones included. Others may come meanwhile.
func (p *Proxy) Wait() {
	p.mu.Lock()
	if p.running == 0 {
		p.mu.Unlock()
		return
	}
	if p.idle == nil {
		p.idle = make(chan struct{})
	}
	idle := p.idle
	p.mu.Unlock()
	<-idle
}

// work has the service work on its own: a client that gives up does not end it.
func (p *Proxy) work(do func()) {
	p.mu.Lock()
	p.running++
	p.mu.Unlock()
	go func() {
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.running--; p.running == 0 && p.idle != nil {
				close(p.idle)
				p.idle = nil
			}
		}()
		do()
	}()
}

// RoundTrip sends a request to the service as the plan says.
func (p *Proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		_ = r.Body.Close() // It was read from memory.
		if err != nil {
			return nil, fmt.Errorf("read the request's body: %w", err)
		}
	}
	in := r.Clone(r.Context())
	in.RemoteAddr, in.RequestURI = "127.0.0.1:1", r.URL.RequestURI()
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	trace := httptrace.ContextClientTrace(r.Context())
	a, err := p.exchange(in, body, func() {
		if trace != nil && trace.GotConn != nil {
			trace.GotConn(httptrace.GotConnInfo{})
		}
	})
	if err != nil {
		return nil, err
	}
	res := &http.Response{
		Status: strconv.Itoa(a.status) + " " + http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r,
	}
	if a.cut {
		res.Body = io.NopCloser(io.MultiReader(bytes.NewReader(a.body[:len(a.body)/2]), broken{}))
	}
	return res, nil
}

// ServeHTTP answers a request as the plan says.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // The client is gone.
	}
	a, err := p.exchange(r, body, func() {})
	if err != nil {
		panic(http.ErrAbortHandler) // The connection ends without an answer.
	}
	maps.Copy(w.Header(), a.header)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	if !a.cut {
		_, _ = w.Write(a.body) // The client may be gone.
		return
	}
	_, _ = w.Write(a.body[:len(a.body)/2])
	_ = http.NewResponseController(w).Flush() // Send what there is before the connection ends.
	panic(http.ErrAbortHandler)
}

// answer is what a client gets.
type answer struct {
	status int
	header http.Header
	body   []byte
	cut    bool // only half of the body comes
}

// exchange treats one request as the plan says. It calls connected once there is a connection. The error is that of a transport.
func (p *Proxy) exchange(r *http.Request, body []byte, connected func()) (*answer, error) {
	p.mu.Lock()
	f := p.plan(r)
	p.mu.Unlock()
	ctx := r.Context()
	if f.Reply == Refused {
		if err := pause(ctx, f.Delay); err != nil {
			return nil, err
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	connected()
	if err := pause(ctx, f.Delay); err != nil {
		return nil, err
	}
	var served *answer
	switch f.Reach {
	case Served:
		var err error
		if served, err = p.serve(r, body); err != nil {
			return nil, err
		}
	case Lagging:
		defer p.serveLater(r, body, f.Lag)
	case Withheld:
	}
	switch {
	case f.Reply == Silent:
		<-ctx.Done()
		return nil, ctx.Err()
	case f.Reply == Replaced:
		return &answer{status: f.Status, header: copied(f.Header), body: []byte(f.Body)}, nil
	case f.Reply == Dropped || served == nil:
		return nil, io.EOF
	case f.Reply == Truncated:
		served.cut = true
	}
	return served, nil
}

// serve lets the service handle a request. When the client gives up first, the service goes on.
func (p *Proxy) serve(r *http.Request, body []byte) (*answer, error) {
	served := make(chan *answer, 1)
	p.work(func() { served <- p.handle(r, body) })
	select {
	case a := <-served:
		if a == nil {
			return nil, io.EOF
		}
		return a, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func (p *Proxy) serveLater(r *http.Request, body []byte, lag time.Duration) {
	p.work(func() {
		time.Sleep(lag)
		p.handle(r, body)
	})
}

// handle returns the service's answer to a request, nil if it ended the connection without one.
func (p *Proxy) handle(r *http.Request, body []byte) (a *answer) {
	defer func() {
		if panicked := recover(); panicked != nil {
			if err, ok := panicked.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(panicked)
			}
		}
	}()
	in := r.Clone(context.WithoutCancel(r.Context()))
	in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	w := httptest.NewRecorder()
	p.service.ServeHTTP(w, in)
	return &answer{status: w.Code, header: copied(w.Header()), body: w.Body.Bytes()}
}

func copied(h http.Header) http.Header {
	if h == nil {
		return http.Header{}
	}
	return h.Clone()
}

// broken is the end of a connection in the middle of a body.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
