package bridge

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// progress tells a client that asked for it that a call is alive: once a second, and at each step. Hosts that reset their timeout on
// progress then wait for a long verification or for another writer.
type progress struct {
	session *mcp.ServerSession
	hide    *keyHider
	token   any
	steps   chan string
	done    chan struct{}
	ended   chan struct{} // closed when no notification is being sent
	// received counts the bytes of a bundle as they arrive.
	received atomic.Int64
}

// startProgress returns nil, which is usable, if the client did not ask for progress.
func startProgress(ctx context.Context, req *mcp.CallToolRequest, hide *keyHider) *progress {
	token := req.Params.GetProgressToken()
	if token == nil || req.Session == nil {
		return nil
	}
	p := &progress{session: req.Session, hide: hide, token: token, steps: make(chan string), done: make(chan struct{}), ended: make(chan struct{})}
	go p.notify(ctx)
	return p
}

func (p *progress) notify(ctx context.Context) {
	defer close(p.ended)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	message, count := "waiting for LoopGrid", 0.0
	for {
		select {
		case <-p.done:
			return
		case message = <-p.steps:
		case <-ticker.C:
		}
		count++
		shown := message
		if n := p.received.Load(); n > 0 {
			shown = fmt.Sprintf("%s: %.1f MB so far", message, float64(n)/1e6)
		}
		// The transport notices when the client can no longer be reached.
		_ = p.session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: p.token, Progress: count, Message: p.hide.text(shown)})
	}
}

// step tells the client what the call is doing now.
func (p *progress) step(message string) {
	if p == nil {
		return
	}
	select {
	case p.steps <- message:
	case <-p.done:
	}
}

// stop ends the notifications. Once it returns, none is being sent, so none follows the answer.
func (p *progress) stop() {
	if p == nil {
		return
	}
	close(p.done)
	<-p.ended
}

// counting returns a reader of a bundle that reports progress in bytes.
func (p *progress) counting(bundle io.Reader) io.Reader {
	if p == nil {
		return bundle
	}
	return io.TeeReader(bundle, p)
}

// Write counts what arrives, for [progress.counting].
func (p *progress) Write(b []byte) (int, error) {
	p.received.Add(int64(len(b)))
	return len(b), nil
}
