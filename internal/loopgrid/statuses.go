package loopgrid

import (
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// This file is the one table of the statuses that are no 2xx. Who answered decides what a status means: LoopGrid's own answers are JSON
// with its detail, or its 500 in plain text; everything else comes from a gateway, a proxy, a firewall or another web server.

// meaning is what a status means.
type meaning struct {
	from, to int // statuses
	failure  failure
	remedy   string // what to do about it, empty where only the caller can say: see [APIError.Remedy]
}

// meaningOf returns the meaning of an answer. An answer from in front is never taken for "not recorded" if its sender may have
// passed the request on before: a firewall may refuse LoopGrid's answer too, and error pages may replace it. To turn a request away for
// its size, its address or a missing log-in, nobody has to pass it on.
//
//	status               LoopGrid       in front
//	1xx                  -              unclear
//	307, 308             -              turned away
//	other 3xx            -              turned away if it points to the same path (https, another host), else unclear
//	400, 404, 405        rejected       turned away
//	401                  rejected       turned away
//	403, 409, 422        rejected       unclear
//	407, 411, 414, 415,  -              turned away
//	417, 421, 425, 426,
//	431
//	408, 499             -              gateway error
//	413                  rejected       turned away
//	429                  limited        limited
//	other 4xx            -              unclear
//	500                  server error   error in front
//	502, 504, 520-       -              gateway error
//	503                  gateway error  gateway error
//	other 5xx            -              error in front
func meaningOf(status int, inFront bool) meaning {
	table := statusesInFront()
	if !inFront {
		table = append(ownStatuses(), table...)
	}
	for _, m := range table {
		if m.from <= status && status <= m.to {
			return m
		}
	}
	return meaning{failure: failUnclear}
}

// ownStatuses are those that LoopGrid 0.8 answers itself. With a status that it does not know yet, its answer counts as one from in front.
func ownStatuses() []meaning {
	return []meaning{
		{400, 401, failRejected, ""},
		{403, 405, failRejected, ""},
		{409, 409, failRejected, ""},
		{413, 413, failRejected, ""},
		{422, 422, failRejected, ""},
		{429, 429, failLimited, ""},
		{500, 500, failServer, ""},
		{503, 503, failGateway, ""},
	}
}

// statusesInFront are those of anything else.
func statusesInFront() []meaning {
	const (
		address  = "The operator should check LOOPGRID_BASE_URL: what answers there is not LoopGrid, or not below this path."
		logIn    = "It requires a login of its own, not the LoopGrid key: the operator should set LOOPGRID_BASE_URL to an address that reaches LoopGrid without one."
		firewall = "A firewall or gateway rejected this, not LoopGrid: the operator should have it let the requests of this program through."
		size     = "The gateway in front of LoopGrid accepts only smaller requests: send less, or have the operator raise its limit."
		rate     = "The gateway in front of LoopGrid limits the rate of requests."
		down     = "The gateway in front of LoopGrid cannot reach it or gave up waiting: the operator should check that LoopGrid is running, and the route to it."
		failed   = "The gateway in front of LoopGrid failed: the operator should check its log."
		redirect = "The operator must set LOOPGRID_BASE_URL to the address that it redirects to (https?). Redirects are not followed, since they could carry the key elsewhere."
	)
	return []meaning{
		{300, 399, failTurnedAway, redirect}, // see apiError for those that are unclear
		{400, 400, failTurnedAway, address},
		{401, 401, failTurnedAway, logIn},
		{404, 405, failTurnedAway, address},
		{407, 407, failTurnedAway, logIn},
		{408, 408, failGateway, down},
		{411, 411, failTurnedAway, address},
		{413, 413, failTurnedAway, size},
		{414, 415, failTurnedAway, address},
		{417, 417, failTurnedAway, address},
		{421, 421, failTurnedAway, address},
		{425, 426, failTurnedAway, address},
		{429, 429, failLimited, rate},
		{431, 431, failTurnedAway, size},
		{499, 499, failGateway, down},
		{400, 499, failUnclear, firewall},
		{502, 504, failGateway, down},
		{520, 599, failGateway, down}, // no standard knows them; content delivery networks answer so for a service that they cannot reach
		{500, 599, failInFront, failed},
		{100, 999, failUnclear, address},
	}
}

// isInFront says whether an answer with this body comes from something else than LoopGrid.
func isInFront(res *http.Response, body []byte) bool {
	media := mediaType(res)
	switch {
	case res.StatusCode == http.StatusInternalServerError && media == "text/plain":
		return strings.TrimSpace(string(body)) != "Internal Server Error"
	case media != jsonType, res.Header.Get("Www-Authenticate") != "":
		return true
	}
	return evidence.Get(body, "detail") == nil
}

// mediaType returns the media type of an answer in lower case, empty where there is none that can be read.
func mediaType(res *http.Response) string {
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return media
}

// pointsElsewhere says whether a redirect leads to another resource, such as an error page or a login: the request may have been passed
// on before. One to the same path asks for the same request at another address, as 307 and 308 do by themselves.
func pointsElsewhere(res *http.Response, sent string) bool {
	location := res.Header.Get("Location")
	if location == "" {
		return true
	}
	if res.StatusCode == http.StatusTemporaryRedirect || res.StatusCode == http.StatusPermanentRedirect {
		return false
	}
	from, err := url.Parse(sent)
	if err != nil {
		return true
	}
	to, err := from.Parse(location)
	return err != nil || strings.Trim(to.EscapedPath(), "/") != strings.Trim(from.EscapedPath(), "/")
}
