package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/switchboard-hub/switchboard/hub"
)

// registerTestHub adds the methods of the first client family's hub.
func registerTestHub(h *hub.Hub) {
	h.Handle("Echo", hub.Func1(echo[*string]))
	h.Handle("GetCallerConnectionId", hub.Func0(callerConnectionID))
	h.Handle("GetNumRedirects", hub.Func0(numRedirects))
	h.Handle("ThrowException", hub.Action1(throwException))
	h.Handle("InvokeWithString", hub.Action1(callBack[*string]("Message")))
	h.Handle("SendCustomObject", hub.Action1(callBack[customObject]("CustomObject")))
	h.Handle("GetActiveTransportName", hub.Func0(activeTransport))
	h.Handle("EchoComplexObject", hub.Func1(echoComplexObject))
	h.Handle("SendComplexObject", hub.Func0(func(context.Context, *hub.Caller) (complexObject, error) { return exampleObject(), nil }))
	h.Handle("GetContentTypeHeader", hub.Func0(func(_ context.Context, from *hub.Caller) (*string, error) {
		return openingOf(from).value("Content-Type"), nil
	}))
	h.Handle("GetHeader", hub.Func1(func(_ context.Context, from *hub.Caller, name string) (*string, error) {
		return openingOf(from).value(name), nil
	}))
	h.Handle("GetCookie", hub.Func1(func(_ context.Context, from *hub.Caller, name string) (*string, error) {
		return openingOf(from).cookie(name), nil
	}))
	registerStreams(h)
}

// echo returns its argument.
func echo[T any](_ context.Context, _ *hub.Caller, v T) (T, error) { return v, nil }

// echoComplexObject returns its argument, with the time in UTC.
func echoComplexObject(_ context.Context, _ *hub.Caller, o complexObject) (complexObject, error) {
	o.DateTime = o.DateTime.UTC()
	o.Guid = guid(strings.ToLower(string(o.Guid)))
	return o, nil
}

func callerConnectionID(_ context.Context, from *hub.Caller) (string, error) {
	return from.ConnectionID(), nil
}

func activeTransport(_ context.Context, from *hub.Caller) (string, error) {
	return string(from.Transport()), nil
}

// numRedirects is the number that the redirect wrote into the hub's address.
func numRedirects(_ context.Context, from *hub.Caller) (int, error) {
	n, given := queryValue(openingOf(from).query, "numRedirects")
	if !given {
		return 0, nil
	}
	number, err := strconv.Atoi(n)
	if err != nil {
		return 0, hub.Errorf("numRedirects is not a number")
	}
	return number, nil
}

func throwException(_ context.Context, _ *hub.Caller, message string) error {
	return invalidOperation(message)
}

// callBack calls a method of the calling client with its argument.
func callBack[T any](target string) func(context.Context, *hub.Caller, T) error {
	return func(ctx context.Context, from *hub.Caller, v T) error {
		return from.Clients().Caller().Send(ctx, target, v)
	}
}
