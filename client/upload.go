package client

import (
	"context"
	"iter"
)

// An UploadStream is an argument that is a stream of items; Upload makes it.
type UploadStream struct {
	items iter.Seq2[any, error]
}

// Upload makes a stream that may be passed among the arguments of Invoke,
// Call, Send and Stream. The hub's method gets the streams in the order in
// which they stand among the arguments, whatever is between them.
//
// The items are sent in order, behind the record of the call, as fast as the
// connection takes them. The end of the sequence ends the stream; an error in
// it, or an item that cannot be encoded, ends it with that error's text. The
// sequence is left when the call has ended before it, and when the connection
// has.
//
// The sequence runs on a goroutine of the client. One that waits for
// something should also watch whatever makes its caller give up: a call
// returns without waiting for its sequences to notice, but Stop waits for
// them, as it does for handlers. A sequence must not call Stop.
func Upload[T any](items iter.Seq2[T, error]) UploadStream {
	return UploadStream{items: func(yield func(any, error) bool) {
		for item, err := range items {
			if !yield(item, err) {
				return
			}
		}
	}}
}

// textUploadCanceled ends the uploads of a call whose caller has given up.
const textUploadCanceled = "The call was canceled."

// splitUploads parts the streams among arguments from the others.
func splitUploads(args []any) (plain []any, uploads []UploadStream) {
	for i, a := range args {
		u, ok := a.(UploadStream)
		switch {
		case ok && uploads == nil:
			plain = append(make([]any, 0, len(args)-1), args[:i]...)
			uploads = append(uploads, u)
		case ok:
			uploads = append(uploads, u)
		case uploads != nil:
			plain = append(plain, a)
		}
	}
	if uploads == nil {
		plain = args
	}
	return plain, uploads
}

// startUploads runs each stream on a goroutine of the life, until ctx or the
// session ends.
func (s *session) startUploads(ctx context.Context, uploads []UploadStream, ids []string) {
	for i, u := range uploads {
		s.life.spawn(func() { s.upload(ctx, u, ids[i]) })
	}
}

// upload sends what a stream yields.
func (s *session) upload(ctx context.Context, u UploadStream, id string) {
	if u.items != nil { // nil is the zero UploadStream, which is empty
		for item, err := range u.items {
			if ctx.Err() != nil {
				return
			}
			var record []byte
			if err == nil {
				record, err = s.protocol.AppendStreamItem(nil, id, item)
			}
			if err != nil {
				_ = s.out.put(ctx, s.done, s.protocol.AppendError(nil, id, err.Error())) // else the call is over, too
				return
			}
			if s.out.put(ctx, s.done, record) != nil {
				return
			}
		}
	}
	if ctx.Err() == nil {
		_ = s.out.put(ctx, s.done, s.protocol.AppendVoid(nil, id))
	}
}
