module github.com/loopgridio/loopgrid-mcp/scripts/hosts

go 1.26.0

require (
	github.com/go-json-experiment/json v1.27.2
	github.com/loopgridio/loopgrid-mcp v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

// The module that is tried is the one around this one. Nobody installs this one, so the line is in nobody's way.
replace github.com/loopgridio/loopgrid-mcp => ../..
