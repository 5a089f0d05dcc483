// Package address says what the address of a service means: whether it is this machine, and which host and port it names, however they
// are spelled. It opens no connection and resolves no name.
package address

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// IsLoopback reports whether a host, as [url.URL.Hostname] returns it, is this machine by its spelling alone: localhost and the names
// below it (RFC 6761, section 6.3), a loopback address, or the unspecified address (0.0.0.0, ::), since dialing that reaches this
// machine too.
func IsLoopback(host string) bool {
	host = canonicalHost(host)
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback() || ip.IsUnspecified()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// HostPort returns the host and port that base names, in one spelling for all that mean the same: lower case, without the dot of the
// root, IPv4 without its IPv6 mapping, the port as a number, the scheme's default port filled in. It is safe to show: it holds no user
// info, path or query.
func HostPort(base *url.URL) string {
	port := base.Port()
	if number, err := strconv.ParseUint(port, 10, 16); err == nil {
		port = strconv.FormatUint(number, 10)
	}
	switch {
	case port != "":
	case strings.EqualFold(base.Scheme, "https"):
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(canonicalHost(base.Hostname()), port)
}

// canonicalHost returns the one spelling of a host. Full-width letters, digits and dots count as their ASCII forms, as resolvers
// and browsers read them.
func canonicalHost(host string) string {
	host = strings.Map(func(r rune) rune {
		switch {
		case '\uFF01' <= r && r <= '\uFF5E': // full-width ASCII
			return r - '\uFF01' + '!'
		case r == '\u3002', r == '\uFF61': // the other dots of IDNA
			return '.'
		}
		return r
	}, host)
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return host
}
