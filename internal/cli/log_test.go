package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stuckWriter takes its first write only once somebody reads.
type stuckWriter struct {
	read    chan struct{}
	written bytes.Buffer
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	<-w.read
	return w.written.Write(p)
}

// A host that never reads stderr loses log lines and nothing else; one that reads again is told how many.
func TestLogLinesThatNobodyReadsAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &stuckWriter{read: make(chan struct{})}
		log := newLogWriter(out)
		write := func(n int) {
			line := fmt.Appendf(nil, "line %d\n", n)
			written, err := log.Write(line)
			require.NoError(t, err)
			require.Equal(t, len(line), written)
		}
		write(0)
		time.Sleep(2 * logPause) // the bubble's clock: the writer holds line 0 and waits for its reader
		const more = 10
		for i := range logQueue + more {
			write(1 + i)
		}
		close(out.read)
		log.flush()
		text := out.written.String()
		assert.Equal(t, 1+logQueue, strings.Count(text, "line "))
		assert.Contains(t, text, fmt.Sprintf("line %d\n", logQueue))
		assert.NotContains(t, text, fmt.Sprintf("line %d\n", logQueue+1))
		assert.True(t, strings.HasSuffix(text, fmt.Sprintf(droppedLines, more)), "the last line says how many were dropped")
	})
}
