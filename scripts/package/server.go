package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
)

// server is server.json: what the MCP Registry is told, in its schema of 2025-12-11.
type server struct {
	Schema      string          `json:"$schema"`
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Repository  serverCode      `json:"repository"`
	Version     string          `json:"version"`
	Packages    []serverPackage `json:"packages"`
}

type serverCode struct {
	URL    string `json:"url"`
	Source string `json:"source"`
}

type serverPackage struct {
	RegistryType     string           `json:"registryType"`
	Identifier       string           `json:"identifier"`
	Version          string           `json:"version,omitempty"` // images carry it in their identifier
	FileSHA256       string           `json:"fileSha256,omitempty"`
	RuntimeHint      string           `json:"runtimeHint,omitempty"`
	RuntimeArguments []serverArgument `json:"runtimeArguments,omitempty"`
	Transport        serverTransport  `json:"transport"`
	Variables        []serverVariable `json:"environmentVariables"`
}

type serverArgument struct {
	Type        string `json:"type"`
	Name        string `json:"name"`
	Value       string `json:"value"`
	Description string `json:"description"`
}

type serverTransport struct {
	Type string `json:"type"`
}

type serverVariable struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Default     string   `json:"default,omitempty"`
	Choices     []string `json:"choices,omitempty"`
	IsSecret    bool     `json:"isSecret,omitempty"`
}

// What a container sees differently: its own loopback is not the host's, and its files go with it.
const (
	containerBaseURL  = "http://host.docker.internal:8000"
	containerEvidence = "/evidence"
)

// writeServer writes server.json. The SHA-256 of the bundles, by their names, are known once they are packed: the registry asks for
// them, but the file in the source tree cannot have them.
func (r *release) writeServer(path string, sums map[string]string) error {
	s := server{
		Schema: "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
		Name:   registryName, Title: "LoopGrid MCP", Description: description,
		Repository: serverCode{URL: repository, Source: "github"}, Version: r.version,
		Packages: []serverPackage{
			{RegistryType: "pypi", Identifier: name, Version: r.version, RuntimeHint: "uvx", Variables: variables()},
			{RegistryType: "npm", Identifier: name, Version: r.version, RuntimeHint: "npx", Variables: variables()},
			{
				RegistryType: "oci", Identifier: "ghcr.io/loopgridio/loopgrid-mcp:" + r.version, RuntimeHint: "docker",
				RuntimeArguments: []serverArgument{
					{"named", "--volume", "loopgrid-evidence:" + containerEvidence, "Keeps downloaded evidence when the container is gone."},
					{"named", "--add-host", "host.docker.internal:host-gateway", "Lets a container on Linux reach a LoopGrid on this machine."},
				},
				Variables: containerVariables(),
			},
		},
	}
	for _, t := range systems() {
		bundle := r.bundleName(t)
		s.Packages = append(s.Packages, serverPackage{
			RegistryType: "mcpb", Identifier: repository + "/releases/download/v" + r.version + "/" + bundle, Version: r.version,
			FileSHA256: sums[bundle], Variables: variables(),
		})
	}
	for i := range s.Packages {
		s.Packages[i].Transport.Type = "stdio"
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(s); err != nil {
		return fmt.Errorf("write server.json: %w", err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil { //nolint:gosec // A document for everybody.
		return fmt.Errorf("write server.json: %w", err)
	}
	return nil
}

// variables are the settings of the program, as the registry describes settings.
func variables() []serverVariable {
	var all []serverVariable
	for _, v := range config.Variables() {
		all = append(all, serverVariable{Name: v.Name, Description: v.Description, Default: v.Default, Choices: v.Choices, IsSecret: v.Secret})
	}
	return all
}

// containerVariables are those of the image, two of which have a default that fits a container.
func containerVariables() []serverVariable {
	all := variables()
	for i := range all {
		switch all[i].Name {
		case "LOOPGRID_BASE_URL":
			all[i].Default = containerBaseURL
		case "LOOPGRID_EVIDENCE_DIR":
			all[i].Default = containerEvidence
		}
	}
	return all
}
