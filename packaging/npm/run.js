"use strict";
// Runs the program that npm installed for this platform. It prints to stderr alone: stdout belongs to MCP.

const { spawn, spawnSync } = require("node:child_process");
const { isatty } = require("node:tty");

function fail(text) {
  console.error(`loopgrid-mcp: ${text}`);
  process.exit(1);
}

// find returns the path of the program, which lies in a package of its own for each platform.
function find() {
  const name = `@loopgridio/mcp-${process.platform}-${process.arch}`;
  try {
    return require.resolve(`${name}/bin/loopgrid-mcp${process.platform === "win32" ? ".exe" : ""}`);
  } catch {
    return fail(`${name} is not installed. Either npm ran with --omit=optional, or a package-lock.json or node_modules from another platform left it out: remove both and install again. If npm knows no such package, there is no build for this platform.`);
  }
}

// check ends with one line where the program cannot be run: process.execve would abort Node with a native stack trace.
function check(program) {
  const { error, status } = spawnSync(program, ["version"], { stdio: "ignore" });
  if (error?.code === "EACCES") fail(`${program} may not be executed: run chmod +x on it, or install where the file system is not mounted noexec.`);
  if (error || status !== 0) fail(`${program} cannot be run (${error?.code ?? `status ${status}`}): it is damaged or for another processor. Install again.`);
}

module.exports = (command) => {
  const program = find();
  check(program);
  const args = [...command, ...process.argv.slice(2)];

  // Node 22.15 and later can give up its process, so that signals and the exit code need no passing on.
  if (process.execve && process.platform !== "win32") {
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
