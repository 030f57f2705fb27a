package backplane

import "unsafe"

// bytesOf views a string as bytes without copying it. The string is the one
// copy go-redis made of this message; nobody else has it, so the bytes may live
// on as the frozen payload that deliver hands around.
func bytesOf(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s))
}
