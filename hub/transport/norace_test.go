//go:build !race

package transport

// raceEnabled says that the race detector is on, under which allocations are
// not counted as usual.
const raceEnabled = false
