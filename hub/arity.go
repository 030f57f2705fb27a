package hub

import (
	"context"
	"iter"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// nothing is the result of an action; clients get null for it, as from the
// official server.
type nothing struct{}

// plain makes a method that answers once.
func plain[P, R any](s params[P], f func(ctx context.Context, from *Caller, p P) (R, error)) Method {
	return Method{
		arity:   s.wire,
		uploads: s.uploads,
		call: func(ctx context.Context, k *call) error {
			p, err := s.bind(k)
			if err != nil {
				return err
			}
			if err := k.admit(); err != nil {
				return err
			}
			result, err := f(ctx, k.caller, p)
			if err != nil {
				return err
			}
			answer(k, result)
			return nil
		},
		bind: func(k *call) ([]any, error) {
			p, err := s.bind(k)
			return s.box(p), err
		},
		invoke: func(ctx context.Context, from *Caller, args []any) (any, error) {
			p, err := s.unbox(args)
			if err != nil {
				return nil, err
			}
			return f(ctx, from, p)
		},
		answer: func(_ context.Context, k *call, result any) error {
			answer(k, result)
			return nil
		},
	}
}

// streaming makes a method that answers with a stream.
func streaming[P, R any](s params[P], f func(ctx context.Context, from *Caller, p P) (iter.Seq2[R, error], error)) Method {
	m := plain(s, f)
	m.streaming = true
	m.call = func(ctx context.Context, k *call) error {
		p, err := s.bind(k)
		if err != nil {
			return err
		}
		if err := k.admit(); err != nil {
			return err
		}
		items, err := f(ctx, k.caller, p)
		if err != nil {
			return err
		}
		return stream(ctx, k, items)
	}
	m.answer = func(ctx context.Context, k *call, result any) error {
		items, err := streamOf[R](result)
		if err != nil {
			return err
		}
		return stream(ctx, k, items)
	}
	return m
}

// Func0 makes a method of a function without parameters that returns a result.
func Func0[R any](f func(ctx context.Context, from *Caller) (R, error)) Method {
	return plain(none(), func(ctx context.Context, from *Caller, _ nothing) (R, error) { return f(ctx, from) })
}

// Func1 makes a method of a function of one parameter that returns a result.
func Func1[A, R any](f func(ctx context.Context, from *Caller, a A) (R, error)) Method {
	return plain(one[A](), func(ctx context.Context, from *Caller, p params1[A]) (R, error) { return f(ctx, from, p.a) })
}

// Func2 makes a method of a function of two parameters that returns a result.
func Func2[A, B, R any](f func(ctx context.Context, from *Caller, a A, b B) (R, error)) Method {
	return plain(two[A, B](), func(ctx context.Context, from *Caller, p params2[A, B]) (R, error) { return f(ctx, from, p.a, p.b) })
}

// Func3 makes a method of a function of three parameters that returns a result.
func Func3[A, B, C, R any](f func(ctx context.Context, from *Caller, a A, b B, c C) (R, error)) Method {
	return plain(three[A, B, C](), func(ctx context.Context, from *Caller, p params3[A, B, C]) (R, error) {
		return f(ctx, from, p.a, p.b, p.c)
	})
}

// Func4 makes a method of a function of four parameters that returns a result.
func Func4[A, B, C, D, R any](f func(ctx context.Context, from *Caller, a A, b B, c C, d D) (R, error)) Method {
	return plain(four[A, B, C, D](), func(ctx context.Context, from *Caller, p params4[A, B, C, D]) (R, error) {
		return f(ctx, from, p.a, p.b, p.c, p.d)
	})
}

// Action0 makes a method of a function without parameters that returns no result.
func Action0(f func(ctx context.Context, from *Caller) error) Method {
	return Func0(func(ctx context.Context, from *Caller) (nothing, error) {
		return nothing{}, f(ctx, from)
	})
}

// Action1 makes a method of a function of one parameter that returns no result.
func Action1[A any](f func(ctx context.Context, from *Caller, a A) error) Method {
	return Func1(func(ctx context.Context, from *Caller, a A) (nothing, error) {
		return nothing{}, f(ctx, from, a)
	})
}

// Action2 makes a method of a function of two parameters that returns no result.
func Action2[A, B any](f func(ctx context.Context, from *Caller, a A, b B) error) Method {
	return Func2(func(ctx context.Context, from *Caller, a A, b B) (nothing, error) {
		return nothing{}, f(ctx, from, a, b)
	})
}

// Action3 makes a method of a function of three parameters that returns no result.
func Action3[A, B, C any](f func(ctx context.Context, from *Caller, a A, b B, c C) error) Method {
	return Func3(func(ctx context.Context, from *Caller, a A, b B, c C) (nothing, error) {
		return nothing{}, f(ctx, from, a, b, c)
	})
}

// Action4 makes a method of a function of four parameters that returns no result.
func Action4[A, B, C, D any](f func(ctx context.Context, from *Caller, a A, b B, c C, d D) error) Method {
	return Func4(func(ctx context.Context, from *Caller, a A, b B, c C, d D) (nothing, error) {
		return nothing{}, f(ctx, from, a, b, c, d)
	})
}

// Stream0 makes a streaming method of a function without parameters. Clients
// get each item as it comes and may cancel, which ends ctx and, at the next
// item, the iteration. An error of the function means that there is no stream;
// one inside the sequence ends it, and the items before it stay valid. While a
// client does not take its items the iteration waits.
func Stream0[R any](f func(ctx context.Context, from *Caller) (iter.Seq2[R, error], error)) Method {
	return streaming(none(), func(ctx context.Context, from *Caller, _ nothing) (iter.Seq2[R, error], error) { return f(ctx, from) })
}

// Stream1 makes a streaming method of a function of one parameter; see Stream0.
func Stream1[A, R any](f func(ctx context.Context, from *Caller, a A) (iter.Seq2[R, error], error)) Method {
	return streaming(one[A](), func(ctx context.Context, from *Caller, p params1[A]) (iter.Seq2[R, error], error) {
		return f(ctx, from, p.a)
	})
}

// Stream2 makes a streaming method of a function of two parameters; see Stream0.
func Stream2[A, B, R any](f func(ctx context.Context, from *Caller, a A, b B) (iter.Seq2[R, error], error)) Method {
	return streaming(two[A, B](), func(ctx context.Context, from *Caller, p params2[A, B]) (iter.Seq2[R, error], error) {
		return f(ctx, from, p.a, p.b)
	})
}

// Stream3 makes a streaming method of a function of three parameters; see Stream0.
func Stream3[A, B, C, R any](f func(ctx context.Context, from *Caller, a A, b B, c C) (iter.Seq2[R, error], error)) Method {
	return streaming(three[A, B, C](), func(ctx context.Context, from *Caller, p params3[A, B, C]) (iter.Seq2[R, error], error) {
		return f(ctx, from, p.a, p.b, p.c)
	})
}

// Stream4 makes a streaming method of a function of four parameters; see Stream0.
func Stream4[A, B, C, D, R any](f func(ctx context.Context, from *Caller, a A, b B, c C, d D) (iter.Seq2[R, error], error)) Method {
	return streaming(four[A, B, C, D](), func(ctx context.Context, from *Caller, p params4[A, B, C, D]) (iter.Seq2[R, error], error) {
		return f(ctx, from, p.a, p.b, p.c, p.d)
	})
}

// Dynamic makes a method of a function that takes any number of arguments,
// each as the client wrote it.
func Dynamic(f func(ctx context.Context, from *Caller, args []protocol.Value) (any, error)) Method {
	m := plain(rest(), f)
	m.arity = dynamic
	return m
}

// DynamicStream makes a streaming method of a function that takes any number
// of arguments; see Dynamic and Stream0.
func DynamicStream(f func(ctx context.Context, from *Caller, args []protocol.Value) (iter.Seq2[any, error], error)) Method {
	m := streaming(rest(), f)
	m.arity = dynamic
	return m
}

// rest are any number of arguments as one parameter.
func rest() params[[]protocol.Value] {
	return params[[]protocol.Value]{
		bind: func(k *call) ([]protocol.Value, error) {
			args := make([]protocol.Value, len(k.in.message.Arguments))
			var err error
			for i := range args {
				if args[i], err = argument[protocol.Value](k, false); err != nil {
					return nil, err
				}
			}
			return args, nil
		},
		box: func(args []protocol.Value) []any {
			boxed := make([]any, len(args))
			for i, a := range args {
				boxed[i] = a
			}
			return boxed
		},
		unbox: func(boxed []any) (args []protocol.Value, err error) {
			args = make([]protocol.Value, len(boxed))
			for i := range boxed {
				args[i] = unbox[protocol.Value](boxed, i, &err)
			}
			return args, err
		},
	}
}
