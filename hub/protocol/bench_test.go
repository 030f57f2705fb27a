package protocol

import (
	"strconv"
	"strings"
	"testing"
)

// protocols are the two there are, for tests and benchmarks over both.
var protocols = []Protocol{JSON{}, MessagePack{}}

var text128 = strings.Repeat("abcdefgh", 16)

type point struct {
	X    int    `json:"x"`
	Y    int    `json:"y"`
	Name string `json:"name"`
}

// invocation returns the body of an invocation with the given arguments.
func invocation(tb testing.TB, p Protocol, args ...any) []byte {
	tb.Helper()
	record, err := p.AppendInvocation(nil, "12", "Echo", args)
	if err != nil {
		tb.Fatal(err)
	}
	body, _, err := p.Cut(record, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

func BenchmarkParse(b *testing.B) {
	for _, p := range protocols {
		for _, size := range []int{16, 128, 16384} {
			b.Run(p.Name()+"/"+strconv.Itoa(size), func(b *testing.B) {
				body := invocation(b, p, strings.Repeat("x", size))
				var m Message
				b.ReportAllocs()
				for b.Loop() {
					if err := p.Parse(body, &m); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(p.Name()+"/ping", func(b *testing.B) {
			body, _, _ := p.Cut(p.AppendPing(nil), 0)
			var m Message
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Parse(body, &m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCut(b *testing.B) {
	for _, p := range protocols {
		b.Run(p.Name(), func(b *testing.B) {
			record, _ := p.AppendInvocation(nil, "12", "Echo", []any{text128})
			b.ReportAllocs()
			for b.Loop() {
				if _, size, _ := p.Cut(record, 32768); size == 0 {
					b.Fatal("not cut")
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, p := range protocols {
		b.Run(p.Name()+"/string", func(b *testing.B) { benchmarkDecode(b, p, text128) })
		b.Run(p.Name()+"/int", func(b *testing.B) { benchmarkDecode(b, p, 123456) })
		b.Run(p.Name()+"/struct", func(b *testing.B) { benchmarkDecode(b, p, point{1, 2, "here"}) })
		b.Run(p.Name()+"/any", func(b *testing.B) { benchmarkDecode[any](b, p, map[string]any{"x": 1, "y": 2, "name": "here"}) })
	}
}

func benchmarkDecode[T any](b *testing.B, p Protocol, v T) {
	raw, err := p.AppendValue(nil, v)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode[T](p, raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendInvocation(b *testing.B) {
	for _, p := range protocols {
		b.Run(p.Name()+"/string", func(b *testing.B) { benchmarkAppend(b, p, text128) })
		b.Run(p.Name()+"/struct", func(b *testing.B) { benchmarkAppend(b, p, point{1, 2, "here"}) })
	}
}

func benchmarkAppend(b *testing.B, p Protocol, args ...any) {
	dst := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.AppendInvocation(dst, "", "Echo", args); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendResult(b *testing.B) {
	for _, p := range protocols {
		b.Run(p.Name(), func(b *testing.B) {
			dst := make([]byte, 0, 1024)
			b.ReportAllocs()
			for b.Loop() {
				out, err := Append(p, p.BeginResult(dst, "12"), text128)
				if err != nil {
					b.Fatal(err)
				}
				p.EndResult(out, 0)
			}
		})
	}
}

func BenchmarkTranscode(b *testing.B) {
	for i, p := range protocols {
		other := protocols[1-i]
		b.Run(p.Name(), func(b *testing.B) {
			raw, _ := p.AppendValue(nil, []any{text128, point{1, 2, "here"}})
			v, err := Decode[Value](p, raw)
			if err != nil {
				b.Fatal(err)
			}
			dst := make([]byte, 0, 1024)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Append(other, dst, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
