package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/address"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

const (
	wrongAddress  = "Check host, port and base path of LOOPGRID_BASE_URL: LoopGrid answers GET /health below it."
	startLoopGrid = "Start LoopGrid, or set LOOPGRID_BASE_URL to its address."
)

// Windows numbers its socket errors differently from the constants that Go invents for it.
const (
	wsaConnectionReset   = syscall.Errno(10054)
	wsaNetUnreachable    = syscall.Errno(10051)
	wsaHostUnreachable   = syscall.Errno(10065)
	wsaConnectionRefused = syscall.Errno(10061)
)

// diagnose says in one line why GET /health was not answered as LoopGrid does, and what to do.
func (d *doctor) diagnose(ctx context.Context, err error) (text, remedy string) {
	var api *loopgrid.APIError
	var answer *loopgrid.AnswerError
	switch {
	case errors.As(err, &api):
		return d.diagnoseStatus(ctx, api)
	case errors.As(err, &answer) && strings.Contains(answer.Reason, "text/html"):
		return fmt.Sprintf("%s answers with a web page where LoopGrid answers JSON: a login page, or another web server", d.settings.BaseURL),
			d.elsewhereOr(ctx, wrongAddress)
	case errors.As(err, &answer):
		return err.Error(), d.elsewhereOr(ctx, wrongAddress)
	}
	var op *net.OpError
	proxy := d.client.Proxy()
	switch {
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return fmt.Sprintf("LoopGrid is not reachable: the proxy %s in between cannot be reached", proxy), proxyRemedy(d.settings.BaseURL)
	case isTLS(err):
		return d.diagnoseTLS(err)
	}
	return d.diagnoseConnection(ctx, err, proxy)
}

// diagnoseStatus is diagnose for an answer that is not a 2xx.
func (d *doctor) diagnoseStatus(ctx context.Context, api *loopgrid.APIError) (text, remedy string) {
	base := d.settings.BaseURL
	switch {
	case api.Status == http.StatusProxyAuthRequired:
		return fmt.Sprintf("LoopGrid is not reachable: the proxy %s asks for a user name and a password (407)", d.client.Proxy()), proxyRemedy(base)
	// A protocol switch has a body that ends with its connection alone: it is not looked at.
	case api.Status >= http.StatusMultipleChoices && api.Status < http.StatusBadRequest:
		return d.diagnoseRedirect(ctx, api.Status)
	case api.Status == http.StatusBadRequest:
		if strange, err := d.client.Inspect(ctx); err == nil && strange.WantsTLS {
			return fmt.Sprintf("%s asks for https", base), fmt.Sprintf("Set LOOPGRID_BASE_URL to https://%s%s.", base.Host, base.Path)
		}
	case api.Status == http.StatusUnauthorized, api.Status == http.StatusForbidden, api.InFront && api.Status >= http.StatusInternalServerError:
		return api.Error(), api.Remedy()
	}
	if api.Status >= http.StatusInternalServerError {
		return api.Error(), "LoopGrid's operator should look at its log."
	}
	return fmt.Sprintf("%s answers %d to GET /health, which LoopGrid does not: another service, another base path, or something in between", base, api.Status),
		d.elsewhereOr(ctx, wrongAddress)
}

func (d *doctor) diagnoseRedirect(ctx context.Context, answered int) (text, remedy string) {
	base := d.settings.BaseURL
	text = fmt.Sprintf("%s redirects (%d), and redirects are never followed, since they could carry the key elsewhere", base, answered)
	strange, err := d.client.Inspect(ctx)
	if err != nil || strange.Location == nil {
		return text, wrongAddress
	}
	to := *strange.Location
	path, isHealth := strings.CutSuffix(to.Path, "/health")
	if !isHealth {
		return fmt.Sprintf("%s redirects (%d) to another page of %s://%s: a login page, or another web server", base, answered, to.Scheme, to.Host), wrongAddress
	}
	target := (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: path}).String()
	if base.Scheme == "http" && to.Scheme == "https" {
		text = fmt.Sprintf("%s redirects (%d) from http to https, and redirects are never followed", base, answered)
	}
	return text, "If " + target + " is your LoopGrid, set LOOPGRID_BASE_URL to it."
}

// diagnoseConnection is diagnose for a request without an answer.
func (d *doctor) diagnoseConnection(ctx context.Context, err error, proxy string) (text, remedy string) {
	base := d.settings.BaseURL
	const unreachable = "LoopGrid is not reachable: "
	var transport *loopgrid.TransportError
	sent := errors.As(err, &transport) && transport.Sent()
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Sprintf("%sits host name %s cannot be resolved", unreachable, base.Hostname()),
			"Check the spelling in LOOPGRID_BASE_URL; a name of a VPN or a container network is known only inside it."
	case errors.As(err, &dns):
		return fmt.Sprintf("%sno name server answered for its host name %s", unreachable, base.Hostname()), "Check this machine's network and its DNS settings."
	case isErrno(err, syscall.ECONNREFUSED, wsaConnectionRefused):
		return fmt.Sprintf("%sthe connection was refused: nothing listens at %s", unreachable, base.Host), d.elsewhereOr(ctx, startLoopGrid+inContainers(base))
	case isErrno(err, syscall.ENETUNREACH, wsaNetUnreachable), isErrno(err, syscall.EHOSTUNREACH, wsaHostUnreachable):
		return fmt.Sprintf("%sthere is no route to %s", unreachable, base.Host), "Check this machine's network, a VPN, and the address in LOOPGRID_BASE_URL."
	case isNotHTTP(errText(err)):
		return fmt.Sprintf("what listens at %s does not speak HTTP: another service, or https", base.Host), d.elsewhereOr(ctx, wrongAddress+orHTTPS(base))
	case isErrno(err, syscall.ECONNRESET, wsaConnectionReset):
		return fmt.Sprintf("the connection to %s was reset before GET /health was answered", base.Host), d.elsewhereOr(ctx, cutRemedy+orHTTPS(base))
	case sent && timedOut(err):
		return fmt.Sprintf("%s accepts the connection, but did not answer GET /health within %s", base, seconds(d.settings.Timeout)),
			d.elsewhereOr(ctx, "LoopGrid hangs, or another service has the port: look at LoopGrid's log, then restart it.")
	case sent:
		return err.Error(), d.elsewhereOr(ctx, cutRemedy+orHTTPS(base))
	case timedOut(err):
		return fmt.Sprintf("%sno connection to %s within %s", unreachable, base.Host, seconds(d.settings.Timeout)),
			"A firewall in between drops the packets, or the host is off: check the address, and whether this machine may reach it."
	case proxy != "" && base.Scheme == "https":
		return fmt.Sprintf("%sthe proxy %s in between does not let the connection through", unreachable, proxy), proxyRemedy(base)
	}
	return err.Error(), wrongAddress
}

// isNotHTTP knows the texts of net/http for an answer that is no HTTP. Whatever speaks first, as SSH and databases do, or hangs up
// before it is asked anything, meets the client while it still believes the connection idle.
func isNotHTTP(text string) bool {
	return slices.ContainsFunc([]string{
		"malformed HTTP", "readLoopPeekFailLocked", "server closed idle connection", "use of closed network connection",
	}, func(part string) bool { return strings.Contains(text, part) })
}

const cutRemedy = "Something in between, or another service on the port, ends the connection: check the address, then LoopGrid's log."

// inContainers adds what loopback means there.
func inContainers(base *url.URL) string {
	if !address.IsLoopback(base.Hostname()) {
		return ""
	}
	return " In a container " + base.Hostname() + " is the container itself."
}

// orHTTPS adds a hint for an http address: a server that expects TLS hangs up on plain http.
func orHTTPS(base *url.URL) string {
	if base.Scheme != "http" {
		return ""
	}
	return fmt.Sprintf(" If the port speaks TLS, the address is https://%s%s.", base.Host, base.Path)
}

func proxyRemedy(base *url.URL) string {
	return fmt.Sprintf("Add %s to NO_PROXY if the proxy is not needed to reach it, or mend HTTP_PROXY and HTTPS_PROXY; the host has to pass them on.", base.Hostname())
}

// isTLS says whether the connection was made and TLS failed on it.
func isTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert) ||
		strings.Contains(errText(err), "server gave HTTP response to HTTPS client") || strings.Contains(errText(err), "remote error: tls:")
}

func (d *doctor) diagnoseTLS(err error) (text, remedy string) {
	base := d.settings.BaseURL
	const unreachable = "LoopGrid is not reachable: "
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("%sits certificate has expired or is not valid yet (valid from %s to %s)", unreachable, day(invalid.Cert.NotBefore), day(invalid.Cert.NotAfter)),
			"Have the certificate of " + base.Hostname() + " renewed. If the dates are right, the clock of this machine is wrong."
	case errors.As(err, &name):
		names := slices.Clone(name.Certificate.DNSNames)
		for _, ip := range name.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		return fmt.Sprintf("%sits certificate is for another host name than %s", unreachable, base.Hostname()),
			fmt.Sprintf("Use a name of the certificate in LOOPGRID_BASE_URL (%s), or have the certificate renewed for this one.", known(shortList(names)))
	case errors.As(err, &unknown):
		return unreachable + "its certificate is signed by an unknown authority", trustRemedy
	case errors.As(err, &verification):
		return unreachable + "its certificate is not valid", "Have the certificate of " + base.Hostname() + " renewed."
	case strings.Contains(errText(err), "remote error: tls:"):
		return unreachable + "it broke off the TLS handshake", "Have LoopGrid's operator look at the TLS settings; a client certificate cannot be given."
	}
	return unreachable + "it does not speak TLS on this port (http instead of https?)",
		fmt.Sprintf("If LoopGrid speaks plain http there, set LOOPGRID_BASE_URL to http://%s%s.", base.Host, base.Path)
}

const trustRemedy = "If it is your own authority or that of a proxy that reads TLS, put its certificate into a PEM file and set LOOPGRID_CA_FILE to that file."

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// shortList joins the first few of a list.
func shortList(all []string) string {
	const most = 5
	if len(all) > most {
		all = append(all[:most:most], "…")
	}
	return strings.Join(all, ", ")
}

// elsewhereOr returns where on this machine LoopGrid answers instead, or else the remedy that is given.
func (d *doctor) elsewhereOr(ctx context.Context, remedy string) string {
	if found := d.elsewhere(ctx); found != "" {
		return "LoopGrid answers at " + found + ": set LOOPGRID_BASE_URL to that."
	}
	return remedy
}

// elsewhere looks for LoopGrid where the operator may have meant, without the key: above the path of the address, since people copy
// the address of a page or of the API; and at the other loopback addresses of the same port, since a service that listens on IPv4
// alone is not found at ::1, nor the reverse, and localhost can be two services.
func (d *doctor) elsewhere(ctx context.Context) string {
	base := d.settings.BaseURL
	var candidates []url.URL
	const levels = 3
	for above := *base; above.Path != "" && len(candidates) < levels; {
		above.RawPath = ""
		above.Path = above.Path[:strings.LastIndexByte(above.Path, '/')]
		candidates = append(candidates, above)
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		if base.Hostname() == host || !address.IsLoopback(base.Hostname()) {
			continue
		}
		other := *base
		other.Host = host
		if strings.Contains(host, ":") {
			other.Host = "[" + host + "]"
		}
		if base.Port() != "" {
			other.Host = net.JoinHostPort(host, base.Port())
		}
		candidates = append(candidates, other)
	}
	for _, candidate := range candidates {
		const patience = 2 * time.Second
		client := loopgrid.New(loopgrid.Options{
			BaseURL: &candidate, Workspace: d.settings.Workspace, UserAgent: "loopgrid-mcp/" + Version, Timeout: min(d.settings.Timeout/2, patience),
			CACertificates: d.settings.CACertificates, Transport: d.process.Transport,
		})
		if health, err := client.Health(ctx); err == nil && health.Service == "loopgrid" {
			return candidate.String()
		}
	}
	return ""
}

// timedOut says whether a request ended because its time was over.
func timedOut(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}

// isErrno says whether the error comes from the system with one of two numbers: that of this system, or that of Windows.
func isErrno(err error, number, windows syscall.Errno) bool {
	return errors.Is(err, number) || errors.Is(err, windows)
}

// errText is the text of the transport's own error: net/http has no types for some of its errors. It is never shown.
func errText(err error) string {
	if transport, ok := errors.AsType[*loopgrid.TransportError](err); ok {
		return transport.Err.Error()
	}
	return err.Error()
}
