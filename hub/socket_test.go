package hub_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/hubtest"
)

func dialHub(t testing.TB, h *hub.Hub) *websocket.Conn {
	t.Helper()
	mux := http.NewServeMux()
	h.Register(mux, "/hub")
	srv := httptest.NewServer(mux)
	ws, _, err := websocket.Dial(context.Background(), "ws"+strings.TrimPrefix(srv.URL, "http")+"/hub", nil)
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	t.Cleanup(func() { ws.CloseNow(); srv.Close() })
	if err := ws.Write(context.Background(), websocket.MessageText, helloRecord()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ws.Read(context.Background()); err != nil {
		t.Fatal(err)
	}
	return ws
}

func TestAFullQueueDoesNotTimeOutAClientThatNeverPings(t *testing.T) {
	var cause atomic.Value
	h := start(t, hub.Options{ClientTimeoutInterval: 400 * time.Millisecond, InvocationQueue: 1}, func(h *hub.Hub) {
		h.Handle("Slow", hub.Action0(func(ctx context.Context, _ *hub.Caller) error {
			select {
			case <-time.After(1500 * time.Millisecond):
			case <-ctx.Done():
			}
			return nil
		}))
		h.OnDisconnected(func(_ context.Context, _ *hub.Caller, err error) { cause.Store(err.Error()) })
	})
	ws := dialHub(t, h)
	var b []byte
	for range 3 {
		b = sendRecord(t, b, "Slow")
	}
	if err := ws.Write(context.Background(), websocket.MessageText, b); err != nil {
		t.Fatal(err)
	}
	ctx := ws.CloseRead(context.Background()) // answers pings
	select {
	case <-ctx.Done():
		time.Sleep(50 * time.Millisecond)
		t.Errorf("a living client was dropped: %v", cause.Load())
	case <-time.After(1200 * time.Millisecond):
	}
}

func TestAPoliteCloseIsPoliteAlsoUnderTraffic(t *testing.T) {
	causes := make(chan error, 100)
	h := start(t, hub.Options{}, func(h *hub.Hub) {
		h.OnDisconnected(func(_ context.Context, _ *hub.Caller, err error) { causes <- err })
	})
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				h.Clients().All().Send(context.Background(), "m", "x")
				time.Sleep(20 * time.Microsecond)
			}
		}
	}()
	bad := 0
	for range 40 {
		ws := dialHub(t, h)
		for range 3 {
			ws.Read(context.Background())
		}
		go ws.Close(websocket.StatusNormalClosure, "") // reads on until the answer
		if err := <-causes; err != nil {
			bad++
			if bad == 1 {
				t.Log(err)
			}
		}
	}
	close(stop)
	<-done
	if bad > 0 {
		t.Errorf("%d of 40 clients that closed politely were reported as gone", bad)
	}
}

func TestQueuedCallsHoldAboutWhatTheClientSent(t *testing.T) {
	release := make(chan struct{})
	h := start(t, hub.Options{}, func(h *hub.Hub) {
		h.Handle("Stuck", hub.Action0(func(context.Context, *hub.Caller) error { <-release; return nil }))
	})
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	record := []byte(`{"type":1,"target":"x","arguments":[1` + strings.Repeat(",1", 16000) + "]}\x1e")
	var writing sync.WaitGroup
	const clients = 2
	for range clients {
		c := hubtest.Connect(t, h, hubtest.Options{})
		c.Send("Stuck")
		writing.Go(func() {
			for range 64 {
				c.Write(record)
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	held := heap() - before
	if each := held / clients >> 10; each > 4<<10 {
		t.Errorf("the queued calls of one client hold %d KiB", each)
	}
	close(release)
	writing.Wait()
}

func TestAHubThatWasShutDownRefuses(t *testing.T) {
	served := 0
	for range 1000 {
		h, err := hub.New(hub.Options{Name: "Test.Hub"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		runtime.Gosched()
		h.Shutdown(context.Background())
		runtime.Gosched()
		time.Sleep(10 * time.Microsecond)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/hub/negotiate?negotiateVersion=1", nil))
		if w.Code == http.StatusOK {
			served++
		}
		cancel()
		<-done
	}
	if served > 0 {
		t.Errorf("%d of 1000 hubs that were shut down negotiate", served)
	}
}
