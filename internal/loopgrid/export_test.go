package loopgrid

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
)

// Dial connects as the client does, with these ways to resolve a name and to connect to one address.
func Dial(
	ctx context.Context, o Options, address string, lookup func(context.Context, string, string) ([]netip.Addr, error),
	dial func(context.Context, string, string) (net.Conn, error),
) (net.Conn, error) {
	return (&dialer{budget: dialBudget(o.Timeout), lookup: lookup, dial: dial}).DialContext(ctx, "tcp", address)
}

// TransportOf returns the transport that a client with these options makes for itself.
func TransportOf(o Options) *http.Transport { return newTransport(o, new(atomic.Bool)) }
