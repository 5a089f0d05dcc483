"""Answers the questions of loopgrid-mcp with the official Python client: see main.go.

Arguments: the binary, a mode of the client (legacy or a version). The plan comes on stdin, what happened goes to stdout.
"""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.types import ElicitResult


async def main() -> None:
    binary, mode = sys.argv[1:]
    plan = json.load(sys.stdin)
    happened = []
    for step in plan:
        questions = []

        async def answer(context, params, step=step, questions=questions):
            questions.append({"message": params.message, "schema": params.requested_schema})
            return ElicitResult(**step["answer"])

        server = StdioServerParameters(command=binary, env=dict(os.environ))
        callback = answer if step["canAsk"] else None
        async with Client(server, mode=mode, elicitation_callback=callback) as client:
            decision = await client.call_tool("loopgrid.record_decision", step["decision"])
            decision_id = json.loads(decision.content[0].text)["decision_id"]
            review = await client.call_tool("loopgrid.record_review", {"decision_id": decision_id, **step["review"]})
            happened.append(
                {"questions": questions, "text": review.content[0].text, "isError": bool(review.is_error), "version": client.protocol_version}
            )
    json.dump(happened, sys.stdout)


asyncio.run(main())
