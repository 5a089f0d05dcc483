// Answers the questions of loopgrid-mcp with an official TypeScript client: see main.go.
//
// Arguments: the binary, and a mode: "v1" for the client of the first SDK, else a mode of the second one (legacy or a version). The
// plan comes on stdin, what happened goes to stdout.
import process from 'node:process';

const [binary, mode] = process.argv.slice(2);
let input = '';
for await (const part of process.stdin) input += part;

async function connect(canAsk, answer) {
  const info = { name: 'review-test', version: '1.0.0' };
  const capabilities = canAsk ? { elicitation: { form: {} } } : {};
  const parameters = { command: binary, args: [], env: process.env, stderr: 'ignore' };
  if (mode === 'v1') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
    const { ElicitRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');
    const client = new Client(info, { capabilities });
    if (canAsk) client.setRequestHandler(ElicitRequestSchema, answer);
    await client.connect(new StdioClientTransport(parameters));
    return client;
  }
  const { Client } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const client = new Client(info, { capabilities, versionNegotiation: { mode: mode === 'legacy' ? mode : { pin: mode } } });
  if (canAsk) client.setRequestHandler('elicitation/create', answer);
  await client.connect(new StdioClientTransport(parameters));
  return client;
}

const happened = [];
for (const step of JSON.parse(input)) {
  const questions = [];
  const client = await connect(step.canAsk, async request => {
    questions.push({ message: request.params.message, schema: request.params.requestedSchema });
    return step.answer;
  });
  const decision = await client.callTool({ name: 'loopgrid.record_decision', arguments: step.decision });
  const { decision_id } = JSON.parse(decision.content[0].text);
  const review = await client.callTool({ name: 'loopgrid.record_review', arguments: { decision_id, ...step.review } });
  happened.push({
    questions,
    text: review.content[0].text,
    isError: review.isError === true,
    version: client.getNegotiatedProtocolVersion?.() ?? '',
  });
  await client.close();
}
process.stdout.write(JSON.stringify(happened));
