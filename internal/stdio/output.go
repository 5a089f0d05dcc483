package stdio

import (
	"io"
	"sync"
)

// spareLimit is the largest buffer kept for the next batch.
const spareLimit = 256 << 10

// lineWriter writes whole lines in the order they were added. Adding never waits for the other side
// to read: whoever calls flush first writes for all, the others return at once. After a failed write
// it drops everything.
type lineWriter struct {
	out    io.Writer
	failed func(error) // called once, after the first failed write

	mu             sync.Mutex
	pending, spare []byte
	writing        int // bytes that are being written
	flushing       bool
	broken         bool
	progress       chan struct{} // closed when nothing is pending; nil while nobody waits
}

// add appends a line made of parts; flush sends it.
func (w *lineWriter) add(parts ...[]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken {
		return
	}
	for _, part := range parts {
		w.pending = append(w.pending, part...)
	}
	w.pending = append(w.pending, '\n')
}

// flush writes what is pending, unless somebody is writing already: they will write it.
func (w *lineWriter) flush() {
	w.mu.Lock()
	if w.flushing {
		w.mu.Unlock()
		return
	}
	w.flushing = true
	var err error
	for len(w.pending) > 0 {
		batch := w.pending
		w.pending, w.spare, w.writing = w.spare[:0], nil, len(batch)
		w.mu.Unlock()
		_, err = w.out.Write(batch)
		w.mu.Lock()
		w.writing = 0
		if cap(batch) <= spareLimit {
			w.spare = batch
		}
		if err != nil {
			w.broken, w.pending = true, nil
		}
	}
	w.flushing = false
	if w.progress != nil {
		close(w.progress)
		w.progress = nil
	}
	w.mu.Unlock()
	if err != nil {
		w.failed(err)
	}
}

// pendingAbove returns nil if at most limit bytes are not written, else a channel that is closed when it is worth
// asking again.
func (w *lineWriter) pendingAbove(limit int) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending)+w.writing <= limit {
		return nil
	}
	if w.progress == nil {
		w.progress = make(chan struct{})
	}
	return w.progress
}
