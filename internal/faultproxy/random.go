package faultproxy

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// The bounds of what [Random] draws. A client that waits a second before it repeats a request whose connection was lost, and six before it
// sends another one after a request that it gave up, never meets the service at work on the earlier one, as long as the service itself takes
// less than [ServiceTime].
const (
	// ServiceTime is how long a request may take in the service.
	ServiceTime = 300 * time.Millisecond
	longestLag  = 600 * time.Millisecond  // after a lost connection or a gateway's answer
	longestHush = 5500 * time.Millisecond // after the client gave up
	longestWait = 4 * time.Second         // on the way
)

// Random is the plan that gives a fault, drawn at random, to a share (0 to 1) of the requests. The same seed draws the same for the same
// sequence of requests; those that change something and those that read have a sequence each, since clients order only the first.
func Random(seed uint64, share float64) Plan {
	writes, reads := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // Repeatable on purpose.
	return func(r *http.Request) Fault {
		random := writes
		if r.Method == http.MethodGet {
			random = reads
		}
		if random.Float64() >= share {
			return Fault{}
		}
		return draw(random)
	}
}

// draw returns one of the faults that a client is expected to survive.
func draw(random *rand.Rand) Fault {
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	reach := Reach(random.IntN(3))
	lag := upTo(longestLag)
	var f Fault
	switch random.IntN(10) {
	case 0:
		f = Fault{Reply: Refused}
	case 1, 2:
		f = Fault{Reach: reach, Lag: lag, Reply: Dropped}
	case 3:
		f = Fault{Reply: Truncated}
	case 4:
		f = Fault{Reach: reach, Lag: upTo(longestHush), Reply: Silent}
	case 5:
		f = Fault{Delay: upTo(longestWait)}
	case 6:
		f = Answer(http.StatusTooManyRequests, "application/json", `{"detail": "Rate limit exceeded"}`)
		if seconds := random.IntN(40); seconds < 30 {
			f.Header.Set("Retry-After", strconv.Itoa(seconds))
		}
	case 7:
		f = Answer(http.StatusInternalServerError, "text/plain; charset=utf-8", "Internal Server Error")
		f.Reach = finished(reach)
	case 8:
		f = Answer(http.StatusBadGateway+random.IntN(3), "text/html", "<html><h1>Bad gateway</h1></html>")
		f.Reach, f.Lag = reach, lag
	default:
		f = Answer(http.StatusOK, "text/html; charset=utf-8", "<html><form>Log in</form></html>")
		if random.IntN(2) == 0 {
			f = Answer(http.StatusOK, "application/json", `{"decision_id": "dec_1", "eve`)
		}
		f.Reach = finished(reach)
	}
	if f.Delay == 0 && random.IntN(4) == 0 {
		f.Delay = upTo(longestWait)
	}
	return f
}

// finished is reach without a service that is still at work: an answer that comes from where the request was handled.
func finished(reach Reach) Reach {
	if reach == Lagging {
		return Served
	}
	return reach
}
