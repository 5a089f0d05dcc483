module github.com/loopgridio/loopgrid-mcp/scripts/hosts

go 1.26.0

require (
	github.com/go-json-experiment/json v1.27.2
	github.com/loopgridio/loopgrid-mcp v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/kelseyhightower/envconfig v1.4.0 // indirect
	github.com/modelcontextprotocol/go-sdk v1.8.0 // indirect
	github.com/segmentio/asm v1.2.1 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/oauth2 v0.38.0 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)

// The module that is tried is the one around this one. Nobody installs this one, so the line is in nobody's way.
replace github.com/loopgridio/loopgrid-mcp => ../..
