module github.com/loopgridio/loopgrid-mcp

go 1.26.0

require (
	github.com/go-json-experiment/json v1.27.2 // indirect
	github.com/kelseyhightower/envconfig v1.4.0 // indirect
	github.com/modelcontextprotocol/go-sdk v1.8.0 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	golang.org/x/sys v0.50.0 // indirect
)
