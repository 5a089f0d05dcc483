package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/loopgridio/loopgrid-mcp/internal/address"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

const wrongAddress = "Check host, port and base path of LOOPGRID_BASE_URL: LoopGrid answers GET /health below it."

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
	if transport, ok := errors.AsType[*loopgrid.TransportError](err); ok {
		if !address.IsLoopback(d.settings.BaseURL.Hostname()) {
			return transport.Error(), transport.Remedy()
		}
		return transport.Error(), d.elsewhereOr(ctx, transport.Remedy())
	}
	return err.Error(), wrongAddress
}

// diagnoseStatus is diagnose for an answer that is not a 2xx.
func (d *doctor) diagnoseStatus(ctx context.Context, api *loopgrid.APIError) (text, remedy string) {
	base := d.settings.BaseURL
	switch {
	// A protocol switch has a body that ends with its connection alone: it is not looked at.
	case api.Status >= http.StatusMultipleChoices && api.Status < http.StatusBadRequest:
		return d.diagnoseRedirect(ctx, api.Status)
	case api.Status == http.StatusBadRequest:
		if strange, err := d.client.Inspect(ctx); err == nil && strange.WantsTLS {
			return fmt.Sprintf("%s asks for https", base), fmt.Sprintf("Set LOOPGRID_BASE_URL to https://%s%s.", base.Host, base.Path)
		}
	case api.InFront && (api.Status == http.StatusUnauthorized || api.Status == http.StatusForbidden || api.Status == http.StatusProxyAuthRequired || api.Status >= http.StatusInternalServerError):
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
			Transport: d.process.Transport, CACertificates: d.settings.CACertificates,
		})
		if health, err := client.Health(ctx); err == nil && health.Service == "loopgrid" {
			return candidate.String()
		}
	}
	return ""
}
