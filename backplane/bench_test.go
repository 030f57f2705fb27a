package backplane_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/backplane"
	"github.com/switchboard-hub/switchboard/internal/redistest"
)

// BenchmarkHop is the time from Publish on one instance to deliver on another,
// one message at a time.
func BenchmarkHop(b *testing.B) {
	server := redistest.Start(b)
	sender, receiver := start(b, backplane.Options{URL: server.URL()}), start(b, backplane.Options{URL: server.URL()})
	arrived := make(chan time.Time, 1)
	subscribe(b, receiver, func(string, []byte) { arrived <- time.Now() }, "room")
	subscribe(b, sender, ignore, "other")
	payload := make([]byte, 200)
	var hops []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		if err := sender.Publish(b.Context(), "room", payload); err != nil {
			b.Fatal(err)
		}
		hops = append(hops, (<-arrived).Sub(began))
	}
	slices.Sort(hops)
	b.ReportMetric(float64(hops[len(hops)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(hops[len(hops)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkPacedHop is the same at 500 messages a second.
func BenchmarkPacedHop(b *testing.B) {
	server := redistest.Start(b)
	sender, receiver := start(b, backplane.Options{URL: server.URL()}), start(b, backplane.Options{URL: server.URL()})
	arrived := make(chan time.Time, 1)
	subscribe(b, receiver, func(string, []byte) { arrived <- time.Now() }, "room")
	subscribe(b, sender, ignore, "other")
	payload := make([]byte, 200)
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	var hops []time.Duration
	for b.Loop() {
		<-pace.C
		began := time.Now()
		if err := sender.Publish(b.Context(), "room", payload); err != nil {
			b.Fatal(err)
		}
		hops = append(hops, (<-arrived).Sub(began))
	}
	slices.Sort(hops)
	b.ReportMetric(float64(hops[len(hops)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(hops[len(hops)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkPublish is the cost of a message in a full pipeline; nobody
// subscribes.
func BenchmarkPublish(b *testing.B) {
	server := redistest.Start(b)
	sender := start(b, backplane.Options{URL: server.URL(), PublishQueueBytes: 1 << 20})
	subscribe(b, sender, ignore, "other")
	payload := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		if err := sender.Publish(b.Context(), "room", payload); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := sender.PublishConfirmed(b.Context(), "room", payload); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
	s := sender.redis.Stats()
	b.ReportMetric(float64(s.Published)/float64(s.Batches), "msgs/batch")
}

// BenchmarkPublishDeliver is the same with one instance that gets everything.
func BenchmarkPublishDeliver(b *testing.B) {
	server := redistest.Start(b)
	sender, receiver := start(b, backplane.Options{URL: server.URL(), PublishQueueBytes: 1 << 20}), start(b, backplane.Options{URL: server.URL()})
	last := make(chan struct{})
	subscribe(b, sender, ignore, "other")
	subscribe(b, receiver, func(_ string, payload []byte) {
		if len(payload) == 0 {
			close(last)
		}
	}, "room")
	payload := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		if err := sender.Publish(b.Context(), "room", payload); err != nil {
			b.Fatal(err)
		}
	}
	publish(b, sender, "room", "")
	<-last
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}

// BenchmarkSubscribe is a join, awaited, of a channel nobody here had yet, and
// a leave.
func BenchmarkSubscribe(b *testing.B) {
	server := redistest.Start(b)
	r := start(b, backplane.Options{URL: server.URL()})
	for _, concurrent := range []int{1, 64} {
		b.Run(fmt.Sprintf("concurrent=%d", concurrent), func(b *testing.B) {
			var next atomic.Int64
			b.SetParallelism(concurrent)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					channel := fmt.Sprint("room-", next.Add(1))
					if err := r.Subscribe(b.Context(), ignore, channel); err != nil {
						b.Error(err)
					}
					if err := r.Unsubscribe(b.Context(), channel); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkRelink is the time from the loss of a connection until all channels
// are subscribed again.
func BenchmarkRelink(b *testing.B) {
	for _, channels := range []int{1, 10_000, 100_000} {
		b.Run(fmt.Sprintf("channels=%d", channels), func(b *testing.B) {
			server := redistest.Start(b)
			list := names("channel", channels)
			for b.Loop() {
				b.StopTimer() // a link that breaks again and again backs off
				r := start(b, backplane.Options{URL: server.URL()})
				states := watchLink(r)
				subscribe(b, r, ignore, list...)
				await(b, states, patience, "up", isUp)
				b.StartTimer()
				server.Do("CLIENT", "KILL", "TYPE", "pubsub")
				await(b, states, patience, "up", isUp)
				b.StopTimer()
				r.stop()
				b.StartTimer()
			}
		})
	}
}
