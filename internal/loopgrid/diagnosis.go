package loopgrid

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/address"
	"github.com/loopgridio/loopgrid-mcp/internal/text"
)

// This file says what ended a request before it was answered, and what can be done about it: once, for tools and doctor alike. It names
// the host and the port that were tried, never a user name, a path or the words of an error that it does not know.

// diagnosis is a problem and, as a sentence or two to the operator, its remedy.
type diagnosis struct{ problem, remedy string }

const (
	unreachable             = "LoopGrid is not reachable: "
	wrongAddress            = "Check host, port and base path of LOOPGRID_BASE_URL: LoopGrid answers GET /health below it."
	clientCertificateRemedy = "It asks for a client certificate, and this program has none to give: use an address of LoopGrid that does not ask for one."
	cutRemedy               = "Something in between, or another service on the port, ends the connection: check the address, then LoopGrid's log."
)

// diagnose says what e is about.
func (c *Client) diagnose(e *TransportError) diagnosis {
	switch {
	case e.failure == failCancelled, e.failure == failAborted:
		return diagnosis{fmt.Sprintf("%s %s was cancelled", e.Method, e.Route), ""}
	case isProxyError(e.Err):
		return c.diagnoseProxy(e.Err)
	case isTLS(e.Err):
		return c.diagnoseTLS(e.Err)
	case e.failure.mayHaveLanded:
		return c.diagnoseLoss(e)
	}
	return c.diagnoseConnection(e.Err)
}

// diagnoseConnection is for a request that never left.
func (c *Client) diagnoseConnection(err error) diagnosis {
	base := c.o.BaseURL
	at := address.HostPort(base)
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return diagnosis{
			unreachable + "its host name " + text.Clean(base.Hostname(), 255) + " cannot be resolved",
			"Check the spelling in LOOPGRID_BASE_URL; a name that only a VPN or a container network knows is not known outside of it.",
		}
	case errors.As(err, &dns):
		return diagnosis{unreachable + "no name server answered for its host name " + text.Clean(base.Hostname(), 255), "Check this machine's network and its DNS settings."}
	case isRefused(err):
		remedy := "Start LoopGrid, or set LOOPGRID_BASE_URL to its address."
		if address.IsLoopback(base.Hostname()) {
			remedy += " In a container " + base.Hostname() + " is the container itself."
		}
		return diagnosis{unreachable + "the connection was refused: nothing listens at " + at, remedy}
	case isErrno(err, syscall.ENETUNREACH, wsaNetUnreachable), isErrno(err, syscall.EHOSTUNREACH, wsaHostUnreachable):
		return diagnosis{unreachable + "there is no route to " + at, "Check this machine's network, a VPN, and the address in LOOPGRID_BASE_URL."}
	case isTimeout(err):
		return diagnosis{
			unreachable + "the connection timed out: nothing answers at " + at,
			"A firewall in between drops the packets, or the host is off: check the address, and whether this machine may reach it.",
		}
	default:
		return diagnosis{unreachable + "the connection to " + at + " could not be made", wrongAddress}
	}
}

// diagnoseLoss is for a request that may have reached the service.
func (c *Client) diagnoseLoss(e *TransportError) diagnosis {
	at := address.HostPort(c.o.BaseURL)
	switch {
	case isNotHTTP(e.Err):
		return diagnosis{"what listens at " + at + " does not speak HTTP: another service, or https", wrongAddress + c.orHTTPS()}
	case errors.Is(e.Err, errHalted):
		return diagnosis{
			fmt.Sprintf("LoopGrid at %s stopped in the middle of the evidence bundle: nothing came for %s", at, seconds(c.o.Timeout)),
			"Check the network on the way to LoopGrid, and LoopGrid's log.",
		}
	case errors.Is(e.Err, errTooSlow):
		return diagnosis{
			fmt.Sprintf("the evidence bundle arrives too slowly from %s: less than %d KiB within %s", at, floor>>10, seconds(c.o.Timeout)),
			"Check the network on the way to LoopGrid, or raise LOOPGRID_MCP_TIMEOUT_SECONDS.",
		}
	case e.failure == failTimedOut && e.Method == http.MethodGet && (strings.HasSuffix(e.Route, "/verify") || strings.HasSuffix(e.Route, "/evidence")):
		return diagnosis{
			fmt.Sprintf("LoopGrid did not answer %s %s in time (%s, at %s): it checks the whole ledger, which takes longer as it grows", e.Method, e.Route, seconds(c.o.Timeout), at),
			"Raise LOOPGRID_MCP_TIMEOUT_SECONDS.",
		}
	case e.failure == failTimedOut:
		return diagnosis{
			fmt.Sprintf("LoopGrid did not answer %s %s in time (%s, at %s)", e.Method, e.Route, seconds(c.o.Timeout), at),
			"LoopGrid is not responding, or another service uses the port. Check LoopGrid's log, then restart it.",
		}
	case isErrno(e.Err, syscall.ECONNRESET, wsaConnectionReset):
		return diagnosis{fmt.Sprintf("the connection to LoopGrid ended before %s %s was answered (%s reset it)", e.Method, e.Route, at), cutRemedy + c.orHTTPS()}
	default:
		return diagnosis{fmt.Sprintf("the connection to LoopGrid ended before %s %s was answered (at %s)", e.Method, e.Route, at), cutRemedy + c.orHTTPS()}
	}
}

// orHTTPS adds a hint for an http address: a server that expects TLS hangs up on plain http.
func (c *Client) orHTTPS() string {
	if base := c.o.BaseURL; strings.EqualFold(base.Scheme, "http") {
		return fmt.Sprintf(" If the port speaks TLS, the address is https://%s%s.", base.Host, base.Path)
	}
	return ""
}

func (c *Client) diagnoseProxy(err error) diagnosis {
	variable, proxy := proxyVariable(c.o.BaseURL), c.Proxy()
	named := fmt.Sprintf("the proxy %s (from %s)", proxy, variable)
	if proxy == "" {
		named = "the proxy in between"
	}
	var own *proxyError
	switch {
	case !errors.As(err, &own):
		return diagnosis{unreachable + named + " cannot be reached", c.proxyRemedy()}
	case own.status == http.StatusProxyAuthRequired:
		return diagnosis{unreachable + named + " asks for a user name and a password (407)", c.logInRemedy()}
	case own.status != 0:
		return diagnosis{unreachable + named + " does not let the connection through (" + strconv.Itoa(own.status) + ")", c.proxyRemedy()}
	default:
		return diagnosis{unreachable + variable + " " + own.reason, "Correct " + variable + " where the host sets it: http://user:password@proxy:port."}
	}
}

// proxyRemedy and logInRemedy say how to get past a proxy.
func (c *Client) proxyRemedy() string {
	return fmt.Sprintf("Add %s to NO_PROXY if the proxy is not needed to reach it, or correct %s; the host has to pass them on.", c.o.BaseURL.Hostname(), proxyVariable(c.o.BaseURL))
}

func (c *Client) logInRemedy() string {
	return fmt.Sprintf("Add %s to NO_PROXY if the proxy is not needed to reach it, or put the user name and password into %s (http://user:password@proxy:port); the host has to pass them on.",
		c.o.BaseURL.Hostname(), proxyVariable(c.o.BaseURL))
}

func (c *Client) diagnoseTLS(err error) diagnosis {
	base := c.o.BaseURL
	host := text.Clean(base.Hostname(), 255)
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return diagnosis{
			unreachable + "its certificate has expired or is not valid yet" + validity(invalid.Cert),
			"Have the certificate of " + host + " renewed. If the dates are right, the clock of this machine is wrong.",
		}
	case errors.As(err, &name) && name.Certificate != nil:
		return diagnoseName(host, name.Certificate)
	case errors.As(err, &unknown):
		return diagnosis{unreachable + "its certificate is signed by an unknown authority", "If it is your own authority or that of a proxy that reads TLS, put its certificate into a PEM file and set LOOPGRID_CA_FILE to that file."}
	case asksForCertificate(err), c.askedForCertificate.Load() && isAlert(err):
		return diagnosis{
			unreachable + "it asks for a client certificate, and this program has none to give",
			clientCertificateRemedy,
		}
	case errors.As(err, &verification), errors.As(err, &invalid):
		return diagnosis{unreachable + "its certificate is not valid", "Have the certificate of " + host + " renewed."}
	case isAlert(err):
		return diagnosis{unreachable + "it broke off the TLS handshake", "Have LoopGrid's operator look at the TLS settings; a client certificate cannot be given."}
	}
	return diagnosis{
		unreachable + "it does not speak TLS on this port (http instead of https?)",
		fmt.Sprintf("If LoopGrid speaks plain http there, set LOOPGRID_BASE_URL to http://%s%s.", base.Host, base.Path),
	}
}

// diagnoseName is for a certificate that is not for the host.
func diagnoseName(host string, cert *x509.Certificate) diagnosis {
	names := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	const most = 5
	if len(names) > most {
		names = append(names[:most:most], "…")
	}
	switch {
	case len(names) == 0 && cert.Subject.CommonName != "":
		return diagnosis{
			unreachable + "its certificate names the host only in the common name, which is no longer checked",
			"Have the certificate of " + host + " renewed with " + host + " as a subject alternative name.",
		}
	case len(names) == 0:
		return diagnosis{unreachable + "its certificate is for another host name than " + host, "Have the certificate renewed for this name."}
	}
	return diagnosis{
		unreachable + "its certificate is for another host name than " + host,
		fmt.Sprintf("Use a name of the certificate in LOOPGRID_BASE_URL (%s), or have the certificate renewed for this one.", text.Clean(strings.Join(names, ", "), 300)),
	}
}

func validity(cert *x509.Certificate) string {
	const minute = "2006-01-02 15:04 MST"
	if cert == nil {
		return ""
	}
	return fmt.Sprintf(" (valid from %s to %s)", cert.NotBefore.UTC().Format(minute), cert.NotAfter.UTC().Format(minute))
}

// seconds shows a time-out as the operator may have set it.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}

// isTLS says whether TLS failed. Some of its errors have a text alone.
func isTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &unknown) || errors.As(err, &name) || errors.As(err, &invalid) ||
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") || isAlert(err)
}

// asksForCertificate knows the alerts by which a server ends a handshake for want of a client certificate. With TLS 1.3 they come after
// the request was sent; the server has not read it.
func asksForCertificate(err error) bool {
	return slices.ContainsFunc([]string{"remote error: tls: certificate required", "remote error: tls: bad certificate"}, func(alert string) bool {
		return strings.Contains(err.Error(), alert)
	})
}

// isNotHTTP knows the texts of net/http for an answer that is no HTTP. Whatever speaks first, as SSH and databases do, or hangs up
// before it is asked anything, meets the client while it still believes the connection idle.
func isNotHTTP(err error) bool {
	return slices.ContainsFunc([]string{
		"malformed HTTP", "readLoopPeekFailLocked", "server closed idle connection", "use of closed network connection",
	}, func(part string) bool { return strings.Contains(err.Error(), part) })
}

// Windows numbers its socket errors differently from the constants that Go invents for it.
const (
	wsaConnectionReset   = syscall.Errno(10054)
	wsaNetUnreachable    = syscall.Errno(10051)
	wsaHostUnreachable   = syscall.Errno(10065)
	wsaConnectionRefused = syscall.Errno(10061)
)

// isErrno says whether the error comes from the system with one of two numbers: that of this system, or that of Windows.
func isErrno(err error, number, windows syscall.Errno) bool {
	return errors.Is(err, number) || errors.Is(err, windows)
}

func isRefused(err error) bool { return isErrno(err, syscall.ECONNREFUSED, wsaConnectionRefused) }

func isTimeout(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}
