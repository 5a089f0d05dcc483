package config_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
)

// writeFile writes a file of its own and returns its path.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()

	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))

	return path
}

// certificate returns a new certificate in PEM.
func certificate(t *testing.T) string {
	t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)

	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestServiceKeyFile(t *testing.T) {
	t.Parallel()

	const key = "lg_live_key-in-a-file"
	for _, content := range []string{key, key + "\n", " \ufeff" + key + "\r\n"} {
		s := load(t, "LOOPGRID_SERVICE_KEY_FILE="+writeFile(t, "key", content))
		assert.Empty(t, lines(s))
		assert.Equal(t, key, s.ServiceKey.Reveal())
	}

	path := writeFile(t, "key", key)
	s := load(t, "LOOPGRID_SERVICE_KEY_FILE="+path)
	require.NoError(t, os.WriteFile(path, []byte("lg_live_another-key\n"), 0o600))
	again, err := s.RereadServiceKey()
	require.NoError(t, err)
	assert.Equal(t, "lg_live_another-key", again.Reveal())
	require.NoError(t, os.Remove(path))
	_, err = s.RereadServiceKey()
	require.EqualError(t, err, "LOOPGRID_SERVICE_KEY_FILE names "+path+", which does not exist")
}

func TestServiceKeyFile_Messages(t *testing.T) {
	t.Parallel()

	const problem = "problem 1 LOOPGRID_SERVICE_KEY_FILE: LOOPGRID_SERVICE_KEY_FILE "
	tests := []struct {
		name, content string
		want          []string // %s is the path
	}{
		{"empty", " \n", []string{problem + "names %s, which is empty.", "  → Write the service key into the file."}},
		{"large", strings.Repeat("k", 4097), []string{problem + "names %s, which is larger than 4 KiB.", "  → Check that it names the right file."}},
		{"two lines", "lg_live_1\nlg_live_2\n", []string{
			problem + "names %s, which holds a character that no key has (character 10 is not printable ASCII).", "  → Copy the key again, as one line.",
		}},
		{"placeholder", "${KEY}", []string{problem + "names %s, which holds a placeholder that nothing filled in.", "  → Write the service key itself into the file."}},
		{"line of an env file", "export LOOPGRID_SERVICE_KEY='lg_live_1'\n", []string{problem + "names %s, which begins with the name of a variable.", "  → Write the key alone into the file."}},
		{"key with an equals sign", "bG9vcGdyaWQtMTIzNDU2Nzg=", []string{}},
		{"line of YAML", "LOOPGRID_SERVICE_KEY: lg_live_1\n", []string{problem + "names %s, which begins with the name of a variable.", "  → Write the key alone into the file."}},
		{"example", "<YOUR_KEY>", []string{problem + "names %s, which still holds the text of an example.", "  → Write the service key into the file."}},
		{"quoted", `"lg_live_1234567890"`, []string{
			"warning LOOPGRID_SERVICE_KEY_FILE: LOOPGRID_SERVICE_KEY_FILE names %s, which holds the key in quotation marks; they were taken off.",
			"  → Write the key without them.",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			path := writeFile(t, "key", tt.content)
			for i := range tt.want {
				tt.want[i] = strings.ReplaceAll(tt.want[i], "%s", path)
			}
			assert.Equal(t, tt.want, lines(load(t, "LOOPGRID_SERVICE_KEY_FILE="+path)))
		})
	}

	dir := t.TempDir()
	assert.Equal(t, []string{problem + "names " + dir + ", which is a directory.", "  → Set it to the path of a regular file."},
		lines(load(t, "LOOPGRID_SERVICE_KEY_FILE="+dir)))

	both := load(t, "LOOPGRID_SERVICE_KEY=lg_live_1234567890", "LOOPGRID_SERVICE_KEY_FILE="+writeFile(t, "key", "lg_live_1234567890"))
	assert.Equal(t, []string{problem + "and LOOPGRID_SERVICE_KEY are both set.", "  → Remove one of them."}, lines(both))

	mistaken := load(t, "LOOPGRID_SERVICE_KEY_FILE=lg_live_1234567890")
	assert.Equal(t, []string{
		problem + "names a file in the working directory, which does not exist.",
		"  → Check the path; in a container, check that the file is mounted there.",
	}, lines(mistaken), "a key instead of its file is not shown")
}

func TestServiceKeyFile_ThatOthersMayWrite(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("modes do not say there who may write")
	}

	path := writeFile(t, "key", "lg_live_1234567890")
	require.NoError(t, os.Chmod(path, 0o666)) //nolint:gosec // That is what is to be seen.
	s := load(t, "LOOPGRID_SERVICE_KEY_FILE="+path)
	assert.Equal(t, []string{
		"warning LOOPGRID_SERVICE_KEY_FILE: LOOPGRID_SERVICE_KEY_FILE names " + path + ", which other users may write to.",
		"  → chmod go-w the file.",
	}, lines(s))
	assert.True(t, s.ServiceKey.IsSet())

	require.NoError(t, os.Chmod(path, 0o444)) //nolint:gosec // As Docker mounts secrets.
	assert.Empty(t, lines(load(t, "LOOPGRID_SERVICE_KEY_FILE="+path)))
}

func TestCAFile(t *testing.T) {
	t.Parallel()

	const doPEM = "  → Use a PEM file: its certificates begin with -----BEGIN CERTIFICATE-----."
	one := certificate(t)
	block, _ := pem.Decode([]byte(one))
	tests := []struct {
		name, content, problem, remedy string
	}{
		{"one", one, "", ""},
		{"two with words between", "# first\n" + one + "\n# second\n" + certificate(t), "", ""},
		{"empty", "", "which holds no certificate.", doPEM},
		{"a key alone", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})), "which holds no certificate.", doPEM},
		{"text", "hello", "which holds no certificate.", doPEM},
		{"DER", string(block.Bytes), "which is in DER format, not in PEM.", "  → Convert it: openssl x509 -inform der -in FILE -out FILE.pem"},
		{
			"BOM", "\ufeff" + one, "which starts with a byte order mark, so its first certificate is not read.",
			"  → Save it as UTF-8 without a byte order mark.",
		},
		{
			"torn", one + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes[:50]})),
			"which holds a certificate that cannot be read (number 2).", doPEM,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			path := writeFile(t, "ca.pem", tt.content)
			s := load(t, "LOOPGRID_CA_FILE="+path)
			system := load(t, "SSL_CERT_FILE="+path)
			if tt.problem == "" {
				assert.Empty(t, lines(s))
				assert.Equal(t, tt.content, string(s.CACertificates))
				return
			}
			assert.Equal(t, []string{"problem 1 LOOPGRID_CA_FILE: LOOPGRID_CA_FILE names " + path + ", " + tt.problem, tt.remedy}, lines(s))
			assert.Nil(t, s.CACertificates)
			if runtime.GOOS == "linux" {
				assert.Equal(t, []string{"warning LOOPGRID_CA_FILE: SSL_CERT_FILE names " + path + ", " + tt.problem, tt.remedy}, lines(system))
			}
		})
	}
}

func TestCAFile_OnSystemsThatReadNoOther(t *testing.T) {
	t.Parallel()

	for _, system := range []string{"darwin", "windows"} {
		assert.Equal(t, []string{"SSL_CERT_FILE is set, but is not read on this system."}, config.SystemCertificateWarnings(system, "/x"))
	}
	assert.Equal(t, []string{"SSL_CERT_FILE is in quotation marks, which are taken as a part of the path."}, config.SystemCertificateWarnings("linux", `"/x"`))
	assert.Equal(t, []string{"SSL_CERT_FILE names /no/such/file, which does not exist."}, config.SystemCertificateWarnings("linux", "/no/such/file"))
	assert.Empty(t, config.SystemCertificateWarnings("linux", ""))
}

// Every path setting takes ~.
func TestFiles_AtHome(t *testing.T) {
	t.Parallel()

	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, "key"), []byte("lg_live_1234567890"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(home, "ca.pem"), []byte(certificate(t)), 0o600))
	s := config.LoadFrom([]string{
		"HOME=" + home, "USERPROFILE=" + home, "LOOPGRID_SERVICE_KEY_FILE=~/key", "LOOPGRID_CA_FILE=~/ca.pem", "LOOPGRID_EVIDENCE_DIR=~/evidence",
	})

	assert.Empty(t, lines(s))
	assert.Equal(t, "lg_live_1234567890", s.ServiceKey.Reveal())
	assert.NotEmpty(t, s.CACertificates)
	assert.Equal(t, filepath.Join(home, "evidence"), s.EvidenceDir.Path)
}
