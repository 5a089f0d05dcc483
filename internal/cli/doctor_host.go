package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// programName is the name under which hosts start this program.
const programName = "loopgrid-mcp"

// checkHost shows what a host on this machine would start, and with which settings.
func (d *doctor) checkHost() {
	d.checkLock()
	d.info(idProgram, fmt.Sprintf("program: %s, version %s", known(d.process.Executable), Version))
	d.checkPath()
	if set := d.settings.Set; len(set) > 0 {
		d.info(idVariables, "settings from the environment: "+strings.Join(set, ", "))
	} else {
		d.info(idVariables, "settings from the environment: none, so each has its default (settings in a host's own file are not visible here)")
	}
	if unread := d.settings.Unread; len(unread) > 0 {
		d.info(idUnread, "variables that this program does not read: "+strings.Join(unread, ", "))
	}
}

// checkLock finds out whether other processes are prevented from writing at the same time.
func (d *doctor) checkLock() {
	const unlocked = "write lock: other processes of this user are not excluded, "
	if d.settings.WriteLock == config.WriteLockOff {
		return // checkUnlocked has judged it by LoopGrid's database
	}
	dir, err := d.process.lockDir()
	if err != nil {
		d.warn(idWriteLock, unlocked+err.Error(), "On SQLite, do not let two hosts write at once.")
		return
	}
	if err := loopgrid.CheckLockDir(dir); err != nil {
		d.warn(idWriteLock, unlocked+err.Error(),
			fmt.Sprintf("Remove %s; it will be created again as a private folder of this user (mode 0700). If another user owns it, ask them or an administrator to remove it. "+
				"Until then, do not let two hosts write at once on SQLite.", dir))
		return
	}
	d.ok(idWriteLock, "write lock: shared by all processes of this user on this machine")
}

// checkPath finds out which program a host starts that is given its name only.
func (d *doctor) checkPath() {
	found, err := exec.LookPath(programName)
	if found == "" { // an error beside a path says that it is relative, and a host may start it all the same
		d.info(idPath, programName+" on PATH: none, so give hosts the full path of the program")
		return
	}
	if absolute, absErr := filepath.Abs(found); absErr == nil {
		found = absolute
	}
	if err == nil && sameFile(found, d.process.Executable) {
		d.ok(idPath, programName+" on PATH: this program")
		return
	}
	d.warn(idPath, fmt.Sprintf("%s on PATH: another one, %s (%s)", programName, found, recognize(found)),
		"Hosts that start it by name run that one: uninstall it, put this program before it on PATH, or give hosts the full path of this one.")
}

func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// recognize says what kind of program a file is by its content. It does not run it, since it could be anything.
func recognize(path string) string {
	f, err := config.Open(path) // what a host would start
	if err != nil {
		return "it cannot be read"
	}
	defer func() { _ = f.Close() }() // it was read only
	const (
		most   = 64 << 20
		script = 1 << 10 // bytes of a script in which its interpreter is named
	)
	content, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return "it cannot be read"
	}
	head := content[:min(len(content), script)]
	switch {
	case bytes.HasPrefix(head, []byte("#!")) && (bytes.Contains(head, []byte("python")) || bytes.Contains(head, []byte("pyenv"))):
		return "a Python script: the Python bridge, version 0.1"
	// What pip installs on Windows is a small program with a ZIP at its end.
	case bytes.HasPrefix(head, []byte("MZ")) && bytes.Contains(content, []byte("__main__.py")) && !bytes.Contains(content, modulePath()):
		return "it starts Python: the Python bridge, version 0.1"
	case bytes.Contains(content, modulePath()):
		return "another build of this program"
	}
	return "not a build of this program"
}

// modulePath is in every build of this program, in Go's build information.
func modulePath() []byte { return []byte("github.com/loopgridio/loopgrid-mcp/cmd/loopgrid-mcp") }
