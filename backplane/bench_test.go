package backplane_test

import (
	"slices"
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

// BenchmarkSubscribe is one join and leave of a channel, awaited.
func BenchmarkSubscribe(b *testing.B) {
	server := redistest.Start(b)
	r := start(b, backplane.Options{URL: server.URL()})
	b.ReportAllocs()
	for b.Loop() {
		subscribe(b, r, ignore, "room")
		if err := r.Unsubscribe(b.Context(), "room"); err != nil {
			b.Fatal(err)
		}
	}
}
