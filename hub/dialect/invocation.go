package dialect

import "github.com/tinylib/msgp/msgp"

// A Frame is one message encoded for one hub protocol: a complete record,
// framing included, ready for the transport.
type Frame struct {
	// Protocol is the protocol's name, "json" or "messagepack". Names that
	// nobody here knows may occur.
	Protocol string

	Data []byte
}

// An Invocation is the envelope of a message for clients. It travels on
// channels of the kinds [All], [Group], [User] and [Connection].
//
// Keep one per receiving goroutine and parse every payload into it.
type Invocation struct {
	// Excluded are the ids of connections that must not get the message.
	// They count on All and Group channels; .NET ignores them elsewhere.
	Excluded [][]byte

	// Frames holds the message once per protocol, in the sender's order. It
	// may be empty, and a protocol may occur twice: the first one counts.
	// Do not publish an invocation without frames: .NET servers disconnect
	// every client that it addresses.
	Frames []Frame

	// InvocationID and ReturnChannel are set when the sender waits for a
	// client's result: the id is also that in the frames, the channel (no
	// channel prefix) is where the [Completion] goes. Nil means none; an
	// empty string is not nil.
	InvocationID  []byte
	ReturnChannel []byte

	// Extension is the fifth item, one raw MessagePack value, or nil if there
	// is none. .NET ignores it.
	Extension []byte
}

// Frame returns the message as encoded for the named protocol, if it is there.
func (in *Invocation) Frame(protocol string) ([]byte, bool) {
	for i := range in.Frames {
		if in.Frames[i].Protocol == protocol {
			return in.Frames[i].Data, true
		}
	}
	return nil, false
}

// The parts of an invocation, as errors name them.
const (
	itemExcluded   = "excluded ids"
	itemExcludedID = "excluded id"
	itemFrames     = "frames"
	itemProtocol   = "protocol name"
	itemFrame      = "frame"
)

// ParseInvocation parses the payload b into in and overwrites all of it. Byte
// slices of in are parts of b; the two outer slices are reused, as are the
// names of protocols, so that nothing is allocated once they have grown. After
// an error in is empty.
//
// An array of three items is read as one of two, as .NET does. A fifth item
// that is no complete MessagePack value is treated as absent: .NET never looks
// at it, and the message before it is whole.
func ParseInvocation(b []byte, in *Invocation) error {
	r := reader{b: b, envelope: envInvocation}
	in.InvocationID, in.ReturnChannel, in.Extension = nil, nil, nil
	in.Excluded = in.Excluded[:0]
	frames := in.Frames[:0]

	items := r.array(2)
	if items >= 2 {
		n, rest, err := msgp.ReadArrayHeaderBytes(r.b)
		for range r.count(n, 1, rest, itemExcluded, err) {
			id := r.str(itemExcludedID)
			if r.err != nil {
				break
			}
			in.Excluded = append(in.Excluded, id)
		}
	}
	if r.err == nil {
		n, rest, err := msgp.ReadMapHeaderBytes(r.b)
		// The smallest entry is an empty name and an empty frame, 3 bytes.
		for range r.count(n, 3, rest, itemFrames, err) {
			protocol := r.str(itemProtocol)
			data := r.bin(itemFrame)
			if r.err != nil {
				break
			}
			frames = appendFrame(frames, protocol, data)
		}
	}
	if items >= 4 {
		in.InvocationID = r.optional("invocation id")
		in.ReturnChannel = r.optional("return channel")
	}
	if items >= 5 && r.err == nil {
		in.Extension = r.value()
	}
	in.Frames = frames
	if r.err != nil {
		in.Excluded, in.Frames = in.Excluded[:0], frames[:0]
		in.InvocationID, in.ReturnChannel = nil, nil
	}
	return r.error()
}

// appendFrame appends a frame and keeps the name that its place had before if
// it is the same.
func appendFrame(frames []Frame, protocol, data []byte) []Frame {
	var old string
	if n := len(frames); n < cap(frames) {
		old = frames[:n+1][n].Protocol
	}
	return append(frames, Frame{Protocol: name(protocol, old), Data: data})
}

// value cuts out one value of any type, or returns nil if it is not complete.
func (r *reader) value() []byte {
	rest, err := msgp.Skip(r.b)
	if err != nil || len(rest) >= len(r.b) {
		return nil
	}
	return r.b[: len(r.b)-len(rest) : len(r.b)-len(rest)]
}

// AppendInvocation appends in to dst as .NET writes it: an array of two items;
// of four if there is an invocation id or a return channel; of five if there
// is an extension, with nil for what is missing. dst grows at most once.
func AppendInvocation(dst []byte, in *Invocation) []byte {
	dst = grow(dst, invocationSize(in.Excluded, in.Frames,
		len(in.InvocationID)+len(in.ReturnChannel)+len(in.Extension)))
	items := invocationItems(in.InvocationID != nil || in.ReturnChannel != nil, in.Extension != nil)
	dst = msgp.AppendArrayHeader(dst, items)
	dst = msgp.AppendArrayHeader(dst, uint32(len(in.Excluded)))
	for _, id := range in.Excluded {
		dst = msgp.AppendStringFromBytes(dst, id)
	}
	dst = appendFrames(dst, in.Frames)
	if items >= 4 {
		dst = appendOptional(dst, in.InvocationID)
		dst = appendOptional(dst, in.ReturnChannel)
	}
	return append(dst, in.Extension...)
}

// AppendInvocationTo does what [AppendInvocation] does for a sender, who has
// strings: an empty invocation id or return channel means none. With enough
// room in dst it allocates nothing.
func AppendInvocationTo(dst []byte, excluded []string, frames []Frame, invocationID, returnChannel string, extension []byte) []byte {
	dst = grow(dst, invocationSize(excluded, frames,
		len(invocationID)+len(returnChannel)+len(extension)))
	items := invocationItems(invocationID != "" || returnChannel != "", extension != nil)
	dst = msgp.AppendArrayHeader(dst, items)
	dst = msgp.AppendArrayHeader(dst, uint32(len(excluded)))
	for _, id := range excluded {
		dst = msgp.AppendString(dst, id)
	}
	dst = appendFrames(dst, frames)
	if items >= 4 {
		dst = appendOptionalString(dst, invocationID)
		dst = appendOptionalString(dst, returnChannel)
	}
	return append(dst, extension...)
}

// invocationItems is the length of the outer array. There is no form of three.
func invocationItems(result, extension bool) uint32 {
	switch {
	case extension:
		return 5
	case result:
		return 4
	}
	return 2
}

// invocationSize is an upper bound of the length of an invocation, of whose
// last three items only the bytes are known.
func invocationSize[S string | []byte](excluded []S, frames []Frame, last int) int {
	const head = 5 // the longest head of a value
	size := 5*head + last
	for _, id := range excluded {
		size += head + len(id)
	}
	for i := range frames {
		size += 2*head + len(frames[i].Protocol) + len(frames[i].Data)
	}
	return size
}

// grow makes room for n more bytes, exactly: slices.Grow leaves room for more
// appends, of which there are none.
func grow(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst
	}
	grown := make([]byte, len(dst), len(dst)+n)
	copy(grown, dst)
	return grown
}

func appendFrames(dst []byte, frames []Frame) []byte {
	dst = msgp.AppendMapHeader(dst, uint32(len(frames)))
	for i := range frames {
		dst = msgp.AppendString(dst, frames[i].Protocol)
		dst = msgp.AppendBytes(dst, frames[i].Data)
	}
	return dst
}

func appendOptional(dst, s []byte) []byte {
	if s == nil {
		return msgp.AppendNil(dst)
	}
	return msgp.AppendStringFromBytes(dst, s)
}

func appendOptionalString(dst []byte, s string) []byte {
	if s == "" {
		return msgp.AppendNil(dst)
	}
	return msgp.AppendString(dst, s)
}
