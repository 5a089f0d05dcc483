package sandbox

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
)

// RoundTrip makes a Server an [http.RoundTripper], so that a client can use it without a network and inside a testing/synctest bubble. As with a
// real server, a request goes on there after its context ends, and a dropped answer is an [io.EOF].
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(context.WithoutCancel(r.Context()))
	in.RemoteAddr = "127.0.0.1:1"
	in.RequestURI = r.URL.RequestURI()
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	in.Body = http.NoBody
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
		in.Body = io.NopCloser(bytes.NewReader(body))
	}
	served := make(chan *http.Response, 1)
	go func() {
		w := &recorder{header: http.Header{}}
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // A recovered value.
				panic(p)
			} else if p != nil {
				served <- nil
			}
		}()
		s.ServeHTTP(w, in)
		served <- w.response(r) //nolint:bodyclose // The client closes it.
	}()
	select {
	case response := <-served:
		if response == nil {
			return nil, io.EOF
		}
		return response, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// recorder keeps what a handler writes.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }

func (w *recorder) response(r *http.Request) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}
}
