package hub

import (
	"context"
	"fmt"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// nothing is the result of an action; clients get null for it, as from the
// official server.
type nothing struct{}

// Func0 makes a method of a function without arguments that returns a result.
func Func0[R any](f func(ctx context.Context, from *Caller) (R, error)) Method {
	return Method{
		arity: 0,
		call: func(ctx context.Context, k *call) error {
			if err := k.admit(); err != nil {
				return err
			}
			result, err := f(ctx, k.caller)
			if err != nil {
				return err
			}
			answer(k, result)
			return nil
		},
		bind: func(k *call) ([]any, error) {
			return nil, nil
		},
		invoke: func(ctx context.Context, from *Caller, args []any) (any, error) {
			return f(ctx, from)
		},
	}
}

// Func1 makes a method of a function of one argument that returns a result.
func Func1[A, R any](f func(ctx context.Context, from *Caller, a A) (R, error)) Method {
	return Method{
		arity: 1,
		call: func(ctx context.Context, k *call) error {
			a, err := argument[A](k, 0)
			if err != nil {
				return err
			}
			if err := k.admit(); err != nil {
				return err
			}
			result, err := f(ctx, k.caller, a)
			if err != nil {
				return err
			}
			answer(k, result)
			return nil
		},
		bind: func(k *call) ([]any, error) {
			a, err := argument[A](k, 0)
			if err != nil {
				return nil, err
			}
			return []any{a}, nil
		},
		invoke: func(ctx context.Context, from *Caller, args []any) (any, error) {
			if len(args) != 1 {
				return nil, fmt.Errorf("hub: a filter passed on %d arguments, not 1", len(args))
			}
			a, err := unbox[A](args, 0)
			if err != nil {
				return nil, err
			}
			return f(ctx, from, a)
		},
	}
}

// Func2 makes a method of a function of two arguments that returns a result.
func Func2[A, B, R any](f func(ctx context.Context, from *Caller, a A, b B) (R, error)) Method {
	return Method{
		arity: 2,
		call: func(ctx context.Context, k *call) error {
			a, err := argument[A](k, 0)
			if err != nil {
				return err
			}
			b, err := argument[B](k, 1)
			if err != nil {
				return err
			}
			if err := k.admit(); err != nil {
				return err
			}
			result, err := f(ctx, k.caller, a, b)
			if err != nil {
				return err
			}
			answer(k, result)
			return nil
		},
		bind: func(k *call) ([]any, error) {
			a, err := argument[A](k, 0)
			if err != nil {
				return nil, err
			}
			b, err := argument[B](k, 1)
			if err != nil {
				return nil, err
			}
			return []any{a, b}, nil
		},
		invoke: func(ctx context.Context, from *Caller, args []any) (any, error) {
			if len(args) != 2 {
				return nil, fmt.Errorf("hub: a filter passed on %d arguments, not 2", len(args))
			}
			a, err := unbox[A](args, 0)
			if err != nil {
				return nil, err
			}
			b, err := unbox[B](args, 1)
			if err != nil {
				return nil, err
			}
			return f(ctx, from, a, b)
		},
	}
}

// Func3 makes a method of a function of three arguments that returns a result.
func Func3[A, B, C, R any](f func(ctx context.Context, from *Caller, a A, b B, c C) (R, error)) Method {
	return Method{
		arity: 3,
		call: func(ctx context.Context, k *call) error {
			a, err := argument[A](k, 0)
			if err != nil {
				return err
			}
			b, err := argument[B](k, 1)
			if err != nil {
				return err
			}
			c, err := argument[C](k, 2)
			if err != nil {
				return err
			}
			if err := k.admit(); err != nil {
				return err
			}
			result, err := f(ctx, k.caller, a, b, c)
			if err != nil {
				return err
			}
			answer(k, result)
			return nil
		},
		bind: func(k *call) ([]any, error) {
			a, err := argument[A](k, 0)
			if err != nil {
				return nil, err
			}
			b, err := argument[B](k, 1)
			if err != nil {
				return nil, err
			}
			c, err := argument[C](k, 2)
			if err != nil {
				return nil, err
			}
			return []any{a, b, c}, nil
		},
		invoke: func(ctx context.Context, from *Caller, args []any) (any, error) {
			if len(args) != 3 {
				return nil, fmt.Errorf("hub: a filter passed on %d arguments, not 3", len(args))
			}
			a, err := unbox[A](args, 0)
			if err != nil {
				return nil, err
			}
			b, err := unbox[B](args, 1)
			if err != nil {
				return nil, err
			}
			c, err := unbox[C](args, 2)
			if err != nil {
				return nil, err
			}
			return f(ctx, from, a, b, c)
		},
	}
}

// Func4 makes a method of a function of four arguments that returns a result.
func Func4[A, B, C, D, R any](f func(ctx context.Context, from *Caller, a A, b B, c C, d D) (R, error)) Method {
	return Method{
		arity: 4,
		call: func(ctx context.Context, k *call) error {
			a, err := argument[A](k, 0)
			if err != nil {
				return err
			}
			b, err := argument[B](k, 1)
			if err != nil {
				return err
			}
			c, err := argument[C](k, 2)
			if err != nil {
				return err
			}
			d, err := argument[D](k, 3)
			if err != nil {
				return err
			}
			if err := k.admit(); err != nil {
				return err
			}
			result, err := f(ctx, k.caller, a, b, c, d)
			if err != nil {
				return err
			}
			answer(k, result)
			return nil
		},
		bind: func(k *call) ([]any, error) {
			a, err := argument[A](k, 0)
			if err != nil {
				return nil, err
			}
			b, err := argument[B](k, 1)
			if err != nil {
				return nil, err
			}
			c, err := argument[C](k, 2)
			if err != nil {
				return nil, err
			}
			d, err := argument[D](k, 3)
			if err != nil {
				return nil, err
			}
			return []any{a, b, c, d}, nil
		},
		invoke: func(ctx context.Context, from *Caller, args []any) (any, error) {
			if len(args) != 4 {
				return nil, fmt.Errorf("hub: a filter passed on %d arguments, not 4", len(args))
			}
			a, err := unbox[A](args, 0)
			if err != nil {
				return nil, err
			}
			b, err := unbox[B](args, 1)
			if err != nil {
				return nil, err
			}
			c, err := unbox[C](args, 2)
			if err != nil {
				return nil, err
			}
			d, err := unbox[D](args, 3)
			if err != nil {
				return nil, err
			}
			return f(ctx, from, a, b, c, d)
		},
	}
}

// Action0 makes a method of a function without arguments that returns no result.
func Action0(f func(ctx context.Context, from *Caller) error) Method {
	return Func0(func(ctx context.Context, from *Caller) (nothing, error) {
		return nothing{}, f(ctx, from)
	})
}

// Action1 makes a method of a function of one argument that returns no result.
func Action1[A any](f func(ctx context.Context, from *Caller, a A) error) Method {
	return Func1(func(ctx context.Context, from *Caller, a A) (nothing, error) {
		return nothing{}, f(ctx, from, a)
	})
}

// Action2 makes a method of a function of two arguments that returns no result.
func Action2[A, B any](f func(ctx context.Context, from *Caller, a A, b B) error) Method {
	return Func2(func(ctx context.Context, from *Caller, a A, b B) (nothing, error) {
		return nothing{}, f(ctx, from, a, b)
	})
}

// Action3 makes a method of a function of three arguments that returns no result.
func Action3[A, B, C any](f func(ctx context.Context, from *Caller, a A, b B, c C) error) Method {
	return Func3(func(ctx context.Context, from *Caller, a A, b B, c C) (nothing, error) {
		return nothing{}, f(ctx, from, a, b, c)
	})
}

// Action4 makes a method of a function of four arguments that returns no result.
func Action4[A, B, C, D any](f func(ctx context.Context, from *Caller, a A, b B, c C, d D) error) Method {
	return Func4(func(ctx context.Context, from *Caller, a A, b B, c C, d D) (nothing, error) {
		return nothing{}, f(ctx, from, a, b, c, d)
	})
}

// Dynamic makes a method of a function that takes any number of arguments,
// each as the client wrote it.
func Dynamic(f func(ctx context.Context, from *Caller, args []protocol.Value) (any, error)) Method {
	bind := func(k *call) ([]protocol.Value, error) {
		args := make([]protocol.Value, len(k.in.message.Arguments))
		for i := range args {
			a, err := argument[protocol.Value](k, i)
			if err != nil {
				return nil, err
			}
			args[i] = a
		}
		return args, nil
	}
	return Method{
		arity: dynamic,
		call: func(ctx context.Context, k *call) error {
			args, err := bind(k)
			if err != nil {
				return err
			}
			if err := k.admit(); err != nil {
				return err
			}
			result, err := f(ctx, k.caller, args)
			if err != nil {
				return err
			}
			answer(k, result)
			return nil
		},
		bind: func(k *call) ([]any, error) {
			args, err := bind(k)
			if err != nil {
				return nil, err
			}
			boxed := make([]any, len(args))
			for i, a := range args {
				boxed[i] = a
			}
			return boxed, nil
		},
		invoke: func(ctx context.Context, from *Caller, boxed []any) (any, error) {
			args := make([]protocol.Value, len(boxed))
			for i := range boxed {
				a, err := unbox[protocol.Value](boxed, i)
				if err != nil {
					return nil, err
				}
				args[i] = a
			}
			return f(ctx, from, args)
		},
	}
}

// unbox takes an argument back from a filter.
func unbox[T any](args []any, i int) (T, error) {
	v, ok := args[i].(T)
	if !ok && args[i] != nil {
		return v, fmt.Errorf("hub: a filter passed on a %T as argument %d, not a %T", args[i], i, v)
	}
	return v, nil
}
