package cli

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

const (
	logQueue     = 1024                   // lines that wait for a slow reader of stderr
	flushAtMost  = 200 * time.Millisecond // at the exit
	droppedLines = "loopgrid-mcp: %d log lines were dropped, nobody read stderr\n"
)

// logWriter writes lines to stderr without ever waiting for its reader: a host that does not read stderr would otherwise stop the
// server after 64 KB. Lines that find the queue full are dropped and counted.
type logWriter struct {
	queue   chan []byte
	dropped atomic.Int64
	flushed chan struct{}
}

func newLogWriter(out io.Writer) *logWriter {
	w := &logWriter{queue: make(chan []byte, logQueue), flushed: make(chan struct{})}
	go func() {
		defer close(w.flushed)
		for line := range w.queue {
			if line == nil {
				return
			}
			if n := w.dropped.Swap(0); n > 0 {
				fmt.Fprintf(out, droppedLines, n)
			}
			_, _ = out.Write(line) // nobody is left to be told
		}
	}()
	return w
}

// Write takes one line. It never fails and never waits.
func (w *logWriter) Write(line []byte) (int, error) {
	select {
	case w.queue <- append([]byte(nil), line...):
	default:
		w.dropped.Add(1)
	}
	return len(line), nil
}

// flush waits until the lines so far are written, for a short while.
func (w *logWriter) flush() {
	limit := time.NewTimer(flushAtMost)
	defer limit.Stop()
	select {
	case w.queue <- nil:
	case <-limit.C:
		return
	}
	select {
	case <-w.flushed:
	case <-limit.C:
	}
}
