package dialect_test

import (
	"fmt"

	"github.com/switchboard-hub/switchboard/hub/dialect"
)

// A message for a group, except for its sender, goes from one instance to
// another.
func Example() {
	d := dialect.DotNet{HubKey: "Contoso.Chat.Hubs.ChatHub"}
	channel := d.Group("room-42")
	payload := dialect.AppendInvocationTo(nil, []string{"sender"}, []dialect.Frame{
		{Protocol: "json", Data: []byte(`{"type":1,"target":"Hello","arguments":[]}` + "\x1e")},
	}, "", "", nil)

	kind, name, ok := d.ParseChannel(channel)
	fmt.Println(kind, name, ok)
	var in dialect.Invocation
	if err := dialect.ParseInvocation(payload, &in); err != nil {
		fmt.Println(err)
		return
	}
	frame, _ := in.Frame("json")
	fmt.Printf("%q %q\n", in.Excluded, frame)
	// Output:
	// group room-42 true
	// ["sender"] "{\"type\":1,\"target\":\"Hello\",\"arguments\":[]}\x1e"
}
