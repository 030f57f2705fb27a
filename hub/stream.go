package hub

import (
	"context"
	"fmt"
	"iter"
)

// How much may be queued for a client before a stream to it waits: little, so
// that not much follows a cancellation and other answers are not held up.
const (
	streamWindow      = 256
	streamWindowBytes = 256 << 10
)

// stream sends the items, one record each, and prepares the completion. It ends
// early, and without an error, when the client cancels.
func stream[R any](ctx context.Context, k *call, items iter.Seq2[R, error]) error {
	if items == nil {
		return errNoStream
	}
	k.midway = true
	for item, err := range items {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		if !sendItem(ctx, k, item) {
			break
		}
	}
	if k.unencodable == nil {
		k.complete()
	}
	return nil
}

// sendItem queues one item and reports whether more are wanted.
func sendItem[R any](ctx context.Context, k *call, item R) bool {
	c := k.caller.c
	m := c.hub.replyMessage()
	buf, err := c.protocol.AppendStreamItem(m.Buffer(), view(k.in.message.InvocationID), item)
	if err != nil {
		k.unencodable = err
		return false
	}
	m.Reset(buf, c.protocol.Binary())
	c.hub.track(m)
	writer, took := c.replyWithin(ctx, m, streamWindow, streamWindowBytes)
	if writer {
		go c.write()
	}
	if took {
		c.hub.stats.streamed.Add(1)
	}
	return took
}

// complete prepares the completion without a result that ends a stream.
func (k *call) complete() {
	c := k.caller.c
	m := c.hub.replyMessage()
	m.Reset(c.protocol.AppendVoid(m.Buffer(), view(k.in.message.InvocationID)), c.protocol.Binary())
	c.hub.track(m)
	k.reply = m
}

// streamOf takes a stream back from the filters.
func streamOf[R any](result any) (iter.Seq2[R, error], error) {
	items, ok := result.(iter.Seq2[R, error])
	if !ok && result != nil {
		return nil, fmt.Errorf("hub: a filter returned a %T, not a %T", result, items)
	}
	return items, nil
}
