package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"unsafe"

	"github.com/switchboard-hub/switchboard/hub/protocol"
	"github.com/switchboard-hub/switchboard/hub/transport"
)

// A Method is a hub method made of a plain function by Func0 to Func4, Action0
// to Action4, Stream0 to Stream4 or the Dynamic ones. The number counts the
// function's parameters behind the caller; those that are an *Upload are
// streams of the client, all others arguments on the wire.
type Method struct {
	target    string
	arity     int // arguments; dynamic for any number
	uploads   int // client streams
	streaming bool
	rules     []Rule

	// call binds, admits, calls and answers without boxing anything; bind,
	// invoke and answer do the same in steps, for filters.
	call   func(ctx context.Context, k *call) error
	bind   func(k *call) ([]any, error)
	invoke func(ctx context.Context, from *Caller, args []any) (any, error)
	answer func(ctx context.Context, k *call, result any) error
}

// dynamic is the arity of methods that take any number of arguments.
const dynamic = -1

// A Rule decides whether a caller may call a method. An error refuses the call;
// the client learns only that it is not authorized.
type Rule func(ctx context.Context, from *Caller) error

// errUnauthorized refuses a call without naming a reason.
var errUnauthorized = errors.New("hub: not authorized")

// RequirePermission admits callers whose identity has the permission.
func RequirePermission(permission string) Rule {
	return func(_ context.Context, from *Caller) error {
		if from.Identity().Allows(permission) {
			return nil
		}
		return errUnauthorized
	}
}

// A call is one run of a method.
type call struct {
	caller *Caller
	in     *invocation
	method *Method
	target string // the method's own spelling, or the client's where unknown

	arguments int  // bound so far
	uploads   int  // bound so far
	midway    bool // items may have been sent

	ctx         context.Context
	reply       *transport.Message
	unencodable error
}

// A bindError says that the arguments do not fit the method.
type bindError struct{ text string }

func (e *bindError) Error() string    { return e.text }
func (e *bindError) TypeName() string { return "InvalidDataException" }

const bindMismatch = "Error binding arguments. Make sure that the types of the provided values match the types of the hub method being invoked."

// A refusal says that a rule did not admit the caller.
type refusal struct{ cause error }

func (e *refusal) Error() string { return e.cause.Error() }
func (e *refusal) Unwrap() error { return e.cause }

// run binds the arguments and calls the method, through the filters if any.
func (m *Method) run(ctx context.Context, k *call, filters []Filter) error {
	msg := &k.in.message
	if n := len(msg.Arguments); m.arity != dynamic && n != m.arity {
		return &bindError{fmt.Sprintf("Invocation provides %d argument(s) but target expects %d.", n, m.arity)}
	}
	k.ctx = ctx
	if len(filters) == 0 {
		return m.call(ctx, k)
	}
	args, err := m.bind(k)
	if err != nil {
		return err
	}
	if err := k.admit(); err != nil {
		return err
	}
	result, err := runFilters(ctx, filters, &Invocation{Target: m.target, Caller: k.caller, Args: args}, m.invoke)
	if err != nil {
		return err
	}
	return m.answer(ctx, k, result)
}

// admit applies the method's rules, after binding and before the call, and
// refuses what the method cannot be called with.
func (k *call) admit() error {
	for _, rule := range k.method.rules {
		if err := rule(k.ctx, k.caller); err != nil {
			return &refusal{err}
		}
	}
	switch streaming := k.in.message.Type == protocol.StreamInvocation; {
	case streaming && !k.method.streaming:
		return errNotStreaming
	case !streaming && k.method.streaming:
		return errStreaming
	}
	if n := len(k.in.message.StreamIDs); n != k.method.uploads {
		return Errorf("Client sent %d stream(s), Hub method expects %d.", n, k.method.uploads)
	}
	return nil
}

// What a method cannot be called with or has not given, told in SignalR's words.
var (
	errNotStreaming = errors.New("hub: streaming invocation of a plain method")
	errStreaming    = errors.New("hub: plain invocation of a streaming method")
	errNoStream     = errors.New("hub: the streaming method returned no stream")
)

// argument binds the next parameter: an upload, or the next argument decoded
// into its type.
func argument[T any](k *call, upload bool) (T, error) {
	if upload {
		return nextUpload[T](k), nil
	}
	raw := k.in.message.Arguments[k.arguments]
	k.arguments++
	v, err := protocol.Decode[T](k.caller.c.protocol, raw)
	if err != nil {
		return v, &bindError{bindMismatch}
	}
	return v, nil
}

// answer encodes the result, if the client wants one.
func answer[R any](k *call, result R) {
	id := k.in.message.InvocationID
	if len(id) == 0 {
		return
	}
	c := k.caller.c
	m := c.hub.replyMessage()
	start := m.Buffer()
	buf := c.protocol.BeginResult(start, view(id))
	var err error
	if _, void := any(result).(nothing); void {
		buf, err = c.protocol.AppendValue(buf, nil)
	} else {
		buf, err = protocol.Append(c.protocol, buf, result)
	}
	if err != nil {
		k.unencodable = err
		return
	}
	m.Reset(c.protocol.EndResult(buf, len(start)), c.protocol.Binary())
	c.hub.track(m)
	k.reply = m
}

// errorText is what the client reads about a failed call.
func (k *call) errorText(err error, detailed bool) string {
	var bind *bindError
	var no *refusal
	switch {
	case errors.As(err, &bind):
		return "Failed to invoke '" + k.target + "' due to an error on the server." + detail(bind, detailed)
	case errors.As(err, &no):
		return "Failed to invoke '" + k.target + "' because user is unauthorized"
	case errors.Is(err, errNotStreaming):
		return "The client attempted to invoke the non-streaming '" + k.target + "' method with a streaming invocation."
	case errors.Is(err, errStreaming):
		return "The client attempted to invoke the streaming '" + k.target + "' method with a non-streaming invocation."
	case errors.Is(err, errNoStream):
		return "The value returned by the streaming method '" + k.target + "' is not a ChannelReader<> or IAsyncEnumerable<>."
	case k.midway:
		return "An error occurred on the server while streaming results." + detail(err, detailed)
	}
	return "An unexpected error occurred invoking '" + k.target + "' on the server." + detail(err, detailed)
}

func unknownMethod(target string) string {
	return "Failed to invoke '" + target + "' due to an error on the server. HubException: Method does not exist."
}

// logCallError writes down what a client is not told.
func (h *Hub) logCallError(k *call, err error) {
	var forClient *Error
	var bind *bindError
	var no *refusal
	level := slog.LevelWarn
	usual := errors.As(err, &forClient) || errors.As(err, &bind) || errors.As(err, &no) ||
		errors.Is(err, errNotStreaming) || errors.Is(err, errStreaming) || errors.Is(err, context.Canceled)
	if usual || k.caller.c.ctx.Err() != nil {
		level = slog.LevelDebug
	}
	h.opts.Logger.Log(context.Background(), level, "call failed", slog.String("target", k.target), slog.String("conn", k.caller.ConnectionID()), slog.Any("err", err))
}

// view returns b as a string without copying; valid as long as b is unchanged.
func view(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}
