//go:build !linux

package redistest

import "os/exec"

// tieToParent does nothing: only Linux can tie a child to its parent.
func tieToParent(*exec.Cmd) {}
