package cli

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	logQueue     = 1024                   // lines that wait for a slow reader of stderr
	logPause     = 20 * time.Millisecond  // for which lines are gathered: a write for each would take its turn before the answer of the call
	flushAtMost  = 200 * time.Millisecond // at the exit
	droppedLines = "loopgrid-mcp: %d log lines were dropped, nobody read them\n"
)

// logWriter writes lines without ever waiting for their reader: a host that does not read stderr would otherwise stop the server
// after 64 KB, and a pipe that nobody reads the sandbox. Lines that find the queue full are dropped and counted.
type logWriter struct {
	queue   chan []byte
	dropped atomic.Int64
	end     sync.Once
	ending  chan struct{} // closed by flush
	flushed chan struct{}
}

func newLogWriter(out io.Writer) *logWriter {
	w := &logWriter{queue: make(chan []byte, logQueue), ending: make(chan struct{}), flushed: make(chan struct{})}
	go w.run(out)
	return w
}

func (w *logWriter) run(out io.Writer) {
	defer close(w.flushed)
	for {
		select {
		case line := <-w.queue:
			pause := time.NewTimer(logPause)
			select {
			case <-pause.C:
			case <-w.ending:
				pause.Stop()
			}
			w.write(out, line)
		case <-w.ending:
			w.write(out, nil)
			return
		}
	}
}

// write writes the line and all that wait behind it.
func (w *logWriter) write(out io.Writer, lines []byte) {
	for {
		select {
		case line := <-w.queue:
			lines = append(lines, line...)
			continue
		default:
		}
		break
	}
	if n := w.dropped.Swap(0); n > 0 {
		lines = fmt.Appendf(lines, droppedLines, n)
	}
	if len(lines) > 0 {
		_, _ = out.Write(lines) // there is nobody left to report it to
	}
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

// flush waits until the lines so far are written, for a short while. A line that comes later may be lost.
func (w *logWriter) flush() {
	w.end.Do(func() { close(w.ending) })
	limit := time.NewTimer(flushAtMost)
	defer limit.Stop()
	select {
	case <-w.flushed:
	case <-limit.C:
	}
}
