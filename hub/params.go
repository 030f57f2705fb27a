package hub

import "fmt"

// params are the parameters of a method as one value of type P: how they come
// from a call, and how filters see them.
type params[P any] struct {
	wire    int // arguments on the wire
	uploads int // client streams
	bind    func(k *call) (P, error)
	box     func(p P) []any
	unbox   func(args []any) (P, error)
}

// count adds one parameter to the counts and says whether it is an upload.
func (s *params[P]) count(upload bool) bool {
	if upload {
		s.uploads++
	} else {
		s.wire++
	}
	return upload
}

// boxed checks how many arguments a filter passed on.
func boxed(args []any, want int) error {
	if len(args) != want {
		return fmt.Errorf("hub: a filter passed on %d arguments, not %d", len(args), want)
	}
	return nil
}

// unbox takes an argument back from a filter.
func unbox[T any](args []any, i int, err *error) T {
	var zero T
	if *err != nil {
		return zero
	}
	v, ok := args[i].(T)
	if !ok && args[i] != nil {
		*err = fmt.Errorf("hub: a filter passed on a %T as argument %d, not a %T", args[i], i, zero)
	}
	return v
}

type params1[A any] struct{ a A }

type params2[A, B any] struct {
	a A
	b B
}

type params3[A, B, C any] struct {
	a A
	b B
	c C
}

type params4[A, B, C, D any] struct {
	a A
	b B
	c C
	d D
}

func none() params[nothing] {
	return params[nothing]{
		bind:  func(*call) (nothing, error) { return nothing{}, nil },
		box:   func(nothing) []any { return nil },
		unbox: func(args []any) (nothing, error) { return nothing{}, boxed(args, 0) },
	}
}

func one[A any]() (s params[params1[A]]) {
	upA := s.count(isUpload[A]())
	s.bind = func(k *call) (p params1[A], err error) {
		p.a, err = argument[A](k, upA)
		return p, err
	}
	s.box = func(p params1[A]) []any { return []any{p.a} }
	s.unbox = func(args []any) (p params1[A], err error) {
		err = boxed(args, 1)
		p.a = unbox[A](args, 0, &err)
		return p, err
	}
	return s
}

func two[A, B any]() (s params[params2[A, B]]) {
	upA, upB := s.count(isUpload[A]()), s.count(isUpload[B]())
	s.bind = func(k *call) (p params2[A, B], err error) {
		if p.a, err = argument[A](k, upA); err == nil {
			p.b, err = argument[B](k, upB)
		}
		return p, err
	}
	s.box = func(p params2[A, B]) []any { return []any{p.a, p.b} }
	s.unbox = func(args []any) (p params2[A, B], err error) {
		err = boxed(args, 2)
		p.a, p.b = unbox[A](args, 0, &err), unbox[B](args, 1, &err)
		return p, err
	}
	return s
}

func three[A, B, C any]() (s params[params3[A, B, C]]) {
	upA, upB, upC := s.count(isUpload[A]()), s.count(isUpload[B]()), s.count(isUpload[C]())
	s.bind = func(k *call) (p params3[A, B, C], err error) {
		if p.a, err = argument[A](k, upA); err == nil {
			p.b, err = argument[B](k, upB)
		}
		if err == nil {
			p.c, err = argument[C](k, upC)
		}
		return p, err
	}
	s.box = func(p params3[A, B, C]) []any { return []any{p.a, p.b, p.c} }
	s.unbox = func(args []any) (p params3[A, B, C], err error) {
		err = boxed(args, 3)
		p.a, p.b, p.c = unbox[A](args, 0, &err), unbox[B](args, 1, &err), unbox[C](args, 2, &err)
		return p, err
	}
	return s
}

func four[A, B, C, D any]() (s params[params4[A, B, C, D]]) {
	upA, upB, upC, upD := s.count(isUpload[A]()), s.count(isUpload[B]()), s.count(isUpload[C]()), s.count(isUpload[D]())
	s.bind = func(k *call) (p params4[A, B, C, D], err error) {
		if p.a, err = argument[A](k, upA); err == nil {
			p.b, err = argument[B](k, upB)
		}
		if err == nil {
			p.c, err = argument[C](k, upC)
		}
		if err == nil {
			p.d, err = argument[D](k, upD)
		}
		return p, err
	}
	s.box = func(p params4[A, B, C, D]) []any { return []any{p.a, p.b, p.c, p.d} }
	s.unbox = func(args []any) (p params4[A, B, C, D], err error) {
		err = boxed(args, 4)
		p.a, p.b = unbox[A](args, 0, &err), unbox[B](args, 1, &err)
		p.c, p.d = unbox[C](args, 2, &err), unbox[D](args, 3, &err)
		return p, err
	}
	return s
}
