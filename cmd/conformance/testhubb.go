package main

import (
	"context"
	"iter"
	"net/url"
	"time"

	"github.com/switchboard-hub/switchboard/hub"
)

// streamPause is the time between two items of Stream.
const streamPause = 20 * time.Millisecond

// registerTestHubB adds the methods of the second client family's hub.
func registerTestHubB(h *hub.Hub) {
	h.Handle("HelloWorld", hub.Func0(func(context.Context, *hub.Caller) (string, error) { return "Hello World!", nil }))
	h.Handle("Echo", hub.Func1(echo[*string]))
	h.Handle("Stream", hub.Stream1(count))
	h.Handle("StreamException", hub.Stream0(func(context.Context, *hub.Caller) (iter.Seq2[int, error], error) {
		return nil, invalidOperation("Error occurred while streaming.")
	}))
	h.Handle("StreamBroken", hub.Stream0(func(context.Context, *hub.Caller) (iter.Seq2[string, error], error) { return nil, nil }))
	h.Handle("CallEcho", hub.Action1(callBack[*string]("Echo")))
	h.Handle("CallHandlerThatDoesntExist", hub.Action0(func(ctx context.Context, from *hub.Caller) error {
		return from.Clients().Caller().Send(ctx, "NoClientHandler")
	}))
	h.Handle("GetCallerConnectionId", hub.Func0(callerConnectionID))
	h.Handle("StreamEcho", hub.Stream1(streamEcho[*string]))
	h.Handle("StreamEchoInt", hub.Stream1(streamEcho[int]))
	h.Handle("StreamIAsyncConsumer", hub.Stream1(streamEcho[int]))
	h.Handle("GetUserIdentifier", hub.Func0(userIdentifier))
	h.Handle("GetHeaderValues", hub.Func1(headerValues))
	h.Handle("GetCookieValue", hub.Func1(cookieValue))
	h.Handle("GetIHttpConnectionFeatureProperties", hub.Func0(addresses))
	h.Handle("GetActiveTransportName", hub.Func0(activeTransport))
	h.Handle("GetHttpProtocol", hub.Func0(httpProtocol))
	h.Handle("Abort", hub.Action0(func(_ context.Context, from *hub.Caller) error {
		from.Abort()
		return nil
	}))
}

// count yields the numbers below n, slowly, until it is cancelled.
func count(ctx context.Context, _ *hub.Caller, n int) (iter.Seq2[int, error], error) {
	return func(yield func(int, error) bool) {
		ticker := time.NewTicker(streamPause)
		defer ticker.Stop()
		for i := range n {
			if !yield(i, nil) {
				return
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	}, nil
}

// streamEcho gives each uploaded item back as it comes.
func streamEcho[T any](_ context.Context, _ *hub.Caller, in *hub.Upload[T]) (iter.Seq2[T, error], error) {
	return in.All(), nil
}

func userIdentifier(_ context.Context, from *hub.Caller) (*string, error) {
	id := from.UserID()
	if id == "" {
		return nil, nil
	}
	return &id, nil
}

func headerValues(_ context.Context, from *hub.Caller, names []string) ([]*string, error) {
	values := make([]*string, len(names))
	for i, name := range names {
		values[i] = openingOf(from).value(name)
	}
	return values, nil
}

// cookieValue is the named cookie with its percent-encoding undone, or nil.
func cookieValue(_ context.Context, from *hub.Caller, name string) (*string, error) {
	raw := openingOf(from).cookie(name)
	if raw == nil {
		return nil, nil
	}
	value, err := url.PathUnescape(*raw)
	if err != nil {
		return raw, nil // a percent sign that means itself
	}
	return &value, nil
}

// addresses tells both ends of the TCP connection.
func addresses(_ context.Context, from *hub.Caller) ([]any, error) {
	o := openingOf(from)
	return []any{o.local.port, o.remote.port, o.local.ip, o.remote.ip}, nil
}

func httpProtocol(_ context.Context, from *hub.Caller) (string, error) {
	if openingOf(from).http2 {
		return "HTTP/2", nil
	}
	return "HTTP/1.1", nil
}
