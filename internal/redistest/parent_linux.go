package redistest

import (
	"os/exec"
	"syscall"
)

// tieToParent lets the server die with the test process, even if that is
// killed and runs no clean-up.
func tieToParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
