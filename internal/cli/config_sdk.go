package cli

import (
	"fmt"
	"strings"
)

// sdkPage is client code with the environment set; its marks are replaced by the program and its settings in each language.
const sdkPage = `# loopgrid-mcp from your own code

The six tools have underscores here (loopgrid_record_decision), because the model APIs behind most SDKs refuse dots.

## Python

~~~python
import asyncio
import os

from mcp import Client, StdioServerParameters  # pip install mcp, version 2

COMMAND = @command@
ENV = {
@python@}


async def main() -> None:
    server = StdioServerParameters(command=COMMAND, env=ENV)
    async with Client(server) as client:
        result = await client.call_tool(
            "loopgrid_record_decision",
            {"decision_type": "customer_refund", "proposed_action": {"tool": "stripe.refunds.create", "amount": 720}},
        )
        print(result.content[0].text)


asyncio.run(main())
~~~

The same COMMAND and ENV in frameworks:

~~~python
# LangChain (langchain-mcp-adapters); it starts the server anew for each call
client = MultiServerMCPClient({@name@: {"transport": "stdio", "command": COMMAND, "args": [], "env": ENV}})
# OpenAI Agents
server = MCPServerStdio(params={"command": COMMAND, "args": [], "env": ENV})
# LlamaIndex
client = BasicMCPClient(COMMAND, env=ENV)
# AutoGen
params = StdioServerParams(command=COMMAND, env=ENV)
# Semantic Kernel
plugin = MCPStdioPlugin(name=@name@, command=COMMAND, env=ENV)
# Microsoft Agent Framework
tool = MCPStdioTool(name=@name@, command=COMMAND, env=ENV)
# Haystack
server = StdioServerInfo(command=COMMAND, args=[], env=ENV)
# Strands
client = MCPClient(lambda: stdio_client(StdioServerParameters(command=COMMAND, env=ENV)))
# CrewAI
adapter = MCPServerAdapter(StdioServerParameters(command=COMMAND, env=ENV))
# Google ADK
tools = McpToolset(connection_params=StdioConnectionParams(server_params=StdioServerParameters(command=COMMAND, env=ENV)))
~~~

Pydantic AI, Agno and FastMCP read the entry that loopgrid-mcp config json prints.

## TypeScript

~~~typescript
import { Client } from "@modelcontextprotocol/sdk/client/index.js"; // npm install @modelcontextprotocol/sdk
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const command = @command@;
const env = {
@typescript@};

const client = new Client({ name: "my-agent", version: "1.0.0" });
await client.connect(new StdioClientTransport({ command, args: [], env }));
const result = await client.callTool({
  name: "loopgrid_record_decision",
  arguments: { decision_type: "customer_refund", proposed_action: { tool: "stripe.refunds.create", amount: 720 } },
});
console.log(result.content);
await client.close();
~~~

The same command and env in frameworks:

~~~typescript
// AI SDK (@ai-sdk/mcp)
const tools = await createMCPClient({ transport: new Experimental_StdioMCPTransport({ command, args: [], env }) });
// LangChain (@langchain/mcp-adapters)
const servers = new MultiServerMCPClient({ mcpServers: { @name@: { transport: "stdio", command, args: [], env } } });
// OpenAI Agents (@openai/agents)
const server = new MCPServerStdio({ name: @name@, command, args: [], env });
// Mastra (@mastra/mcp)
const mcp = new MCPClient({ servers: { @name@: { command, args: [], env } } });
~~~

JavaScript rounds whole numbers from 2^53 on: send ids as strings.

## Go

~~~go
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"

	"github.com/modelcontextprotocol/go-sdk/mcp" // go get github.com/modelcontextprotocol/go-sdk
)

func main() {
	ctx := context.Background()
	server := exec.Command(@command@)
	server.Env = append(os.Environ(),
@go@	)
	client := mcp.NewClient(&mcp.Implementation{Name: "my-agent", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: server}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{
		Name:      "loopgrid_record_decision",
		Arguments: map[string]any{"decision_type": "customer_refund", "proposed_action": map[string]any{"tool": "stripe.refunds.create", "amount": 720}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
}
~~~
`

func sdkFile(s setup, _ host) string {
	var python, typescript, golang strings.Builder
	for _, v := range s.env {
		if v.refer { // Go's server has the environment of the program
			fmt.Fprintf(&python, "    %s: os.environ[%s],\n", quoted(v.Name), quoted(v.Name))
			fmt.Fprintf(&typescript, "  %s: process.env.%s ?? \"\",\n", v.Name, v.Name)
			continue
		}
		fmt.Fprintf(&python, "    %s: %s,\n", quoted(v.Name), quoted(v.value))
		fmt.Fprintf(&typescript, "  %s: %s,\n", v.Name, quoted(v.value))
		fmt.Fprintf(&golang, "\t\t%s,\n", quoted(v.Name+"="+v.value))
	}
	return strings.NewReplacer(
		"@command@", quoted(s.program), "@name@", quoted(s.name), "~~~", "```",
		"@python@", python.String(), "@typescript@", typescript.String(), "@go@", golang.String(),
	).Replace(sdkPage)
}
