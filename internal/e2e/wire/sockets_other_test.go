//go:build !linux

package wire

import "testing"

// openSockets is 0 where the system does not tell: there the instance's own
// count of open connections has to do.
func openSockets(testing.TB) int { return 0 }
