"use strict";
// Runs the program that npm installed for this platform. It prints to stderr alone: stdout belongs to MCP.

const { spawn } = require("node:child_process");
const { isatty } = require("node:tty");

function fail(text) {
  console.error(`loopgrid-mcp: ${text}`);
  process.exit(1);
}

module.exports = (command) => {
  const windows = process.platform === "win32";
  const name = `@loopgridio/mcp-${process.platform}-${process.arch}`;
  let program;
  try {
    program = require.resolve(`${name}/bin/loopgrid-mcp${windows ? ".exe" : ""}`);
  } catch {
    fail(`${name} is not installed. Install again without --omit=optional; if npm knows no such package, there is no build for this platform.`);
  }
  const args = [...command, ...process.argv.slice(2)];

  // Node 22.15 and later can give up its process, so that signals and the exit code need no passing on.
  if (process.execve && !windows) {
    process.execve(program, [program, ...args], process.env);
  }

  const child = spawn(program, args, { stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    process.on(signal, () => {
      // A terminal has sent Ctrl-C to the child too, and a second one would cut its last answers off.
      if (signal !== "SIGINT" || !isatty(0)) child.kill(signal);
    });
  }
  child.on("error", (error) => fail(`${program} does not start: ${error.message}`));
  child.on("exit", (code, signal) => {
    if (signal === null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
};
