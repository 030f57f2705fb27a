package protocol_test

import (
	"fmt"
	"strings"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// A server's reader: cut a record out of what has come, parse it, decode its
// argument, answer.
func Example() {
	var p protocol.Protocol = protocol.JSON{}
	chunk := []byte("{\"type\":1,\"invocationId\":\"0\",\"target\":\"Upper\",\"arguments\":[\"hi\"]}\x1e{\"type\":6}\x1e")

	var m protocol.Message
	for {
		body, size, err := p.Cut(chunk, 32<<10)
		if err != nil || size == 0 {
			break // a protocol error, or wait for more bytes
		}
		chunk = chunk[size:]
		if err := p.Parse(body, &m); err != nil {
			break
		}
		if m.Type != protocol.Invocation {
			continue
		}
		text, err := protocol.Decode[string](p, m.Arguments[0])
		if err != nil {
			break
		}
		answer := p.BeginResult(nil, string(m.InvocationID))
		answer, err = protocol.Append(p, answer, strings.ToUpper(text))
		if err != nil {
			break
		}
		answer = p.EndResult(answer, 0)
		fmt.Printf("%q\n", answer)
	}
	// Output: "{\"type\":3,\"invocationId\":\"0\",\"result\":\"HI\"}\x1e"
}

// A Value reaches receivers of either protocol.
func ExampleValue() {
	v, err := protocol.Decode[protocol.Value](protocol.JSON{}, []byte(`{"id":9007199254740993}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := protocol.Append(protocol.MessagePack{}, nil, v)
	fmt.Printf("%x %v\n", out, err)
	// Output: 81a26964cf0020000000000001 <nil>
}
