package loopgrid

import (
	"context"
	"sync"
	"time"
)

// WriteLock says whether writes take turns. LoopGrid on PostgreSQL orders them itself; on SQLite two at once break its chain for good.
type WriteLock string

// The kinds of write lock.
const (
	LockOn   WriteLock = "on"   // always
	LockAuto WriteLock = "auto" // unless LoopGrid says that it runs on PostgreSQL
	LockOff  WriteLock = "off"  // never, except for reviews
)

const (
	// databaseKnown is how long the answer is believed, silenceKnown how long it is believed that there is none.
	databaseKnown = 30 * time.Second
	silenceKnown  = 5 * time.Second
	// databaseTime is how long a write waits for the answer.
	databaseTime = 2 * time.Second
)

// database is what the service last said that it runs on.
type database struct {
	asking chan struct{} // holds a token while somebody asks: one answer serves all who wait for it

	mu    sync.Mutex
	name  string // empty where it did not say
	until time.Time
}

// ended notes how a request ended: a service that was away may come back on another database.
func (d *database) ended(f failure) {
	if f == failRefused || f == failUnreached || f == failServer || f.unsettles {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.until = time.Time{}
	}
}

// ordersWrites says whether calls go side by side, and whether they do so although the service needs the lock. Whatever the service answers
// but its name for PostgreSQL, silence included, locks.
func (c *Client) ordersWrites(ctx context.Context) (sideBySide, unlocked bool) {
	if c.o.WriteLock != LockAuto && c.o.WriteLock != LockOff {
		return false, false
	}
	name := c.databaseName(ctx)
	postgres := name == "postgresql"
	off := c.o.WriteLock == LockOff
	return postgres || off, off && name != "" && !postgres
}

// databaseName returns what the service says that it runs on, empty where it does not say.
func (c *Client) databaseName(ctx context.Context) string {
	d := &c.database
	if name, known := d.known(); known {
		return name
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTime)
	defer cancel()
	if take(ctx, d.asking) != nil {
		return ""
	}
	defer func() { <-d.asking }()
	if name, known := d.known(); known {
		return name
	}
	info, err := c.SystemInfo(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.name, d.until = info.Database, time.Now().Add(databaseKnown)
	if err != nil {
		d.until = time.Now().Add(silenceKnown)
	}
	return d.name
}

func (d *database) known() (name string, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.name, time.Now().Before(d.until)
}
