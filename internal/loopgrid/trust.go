package loopgrid

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
)

// trusting has the transport trust the authorities of a PEM text in addition to the system's.
func trusting(transport *http.Transport, certificates []byte) *http.Transport {
	if len(certificates) == 0 {
		return transport
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // the system has none that can be read
	}
	roots.AppendCertsFromPEM(certificates)
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return transport
}
