package main

import (
	"context"
	"iter"
	"strings"

	"github.com/switchboard-hub/switchboard/hub"
)

// registerStreams adds the streaming methods of the first family's hub.
func registerStreams(h *hub.Hub) {
	h.Handle("Stream", hub.Stream0(func(context.Context, *hub.Caller) (iter.Seq2[string, error], error) {
		return items("a", "b", "c"), nil
	}))
	h.Handle("EmptyStream", hub.Stream0(func(context.Context, *hub.Caller) (iter.Seq2[int, error], error) {
		return items[int](), nil
	}))
	h.Handle("InfiniteStream", hub.Stream0(infiniteStream))
	h.Handle("StreamThrowException", hub.Stream1(func(_ context.Context, _ *hub.Caller, message string) (iter.Seq2[string, error], error) {
		return nil, invalidOperation(message)
	}))
	h.Handle("StreamingConcat", hub.Func1(concat))
}

// items is a stream of known items.
func items[T any](of ...T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range of {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// infiniteStream yields nothing until it is cancelled, and tells the client so.
func infiniteStream(ctx context.Context, from *hub.Caller) (iter.Seq2[string, error], error) {
	return func(func(string, error) bool) {
		<-ctx.Done()
		// The connection may be what has ended; then there is nobody to tell.
		_ = from.Clients().Caller().Send(context.WithoutCancel(ctx), "StreamCanceled")
	}, nil
}

// concat joins what the client uploads.
func concat(_ context.Context, _ *hub.Caller, in *hub.Upload[string]) (string, error) {
	var all strings.Builder
	for item, err := range in.All() {
		if err != nil {
			return "", err
		}
		all.WriteString(item)
	}
	return all.String(), nil
}
