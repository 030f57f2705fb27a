package vendor_test

import (
	"fmt"
	"io/fs"

	"github.com/switchboard-hub/switchboard/web/vendor"
)

func Example() {
	for _, name := range vendor.Names() {
		if _, err := fs.Stat(vendor.Files(), name); err == nil {
			fmt.Println(name)
		}
	}
	// Output:
	// signalr.min.js
	// signalr-protocol-msgpack.min.js
	// LICENSE.signalr.txt
	// LICENSE.msgpack.txt
}
