package transport

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestForwardedPollsKeepTheirConnections: 300 clients poll through another
// instance and get a broadcast again and again.
func TestForwardedPollsKeepTheirConnections(t *testing.T) {
	keys := RandomKeys()
	const clients, rounds = 300, 8
	conns := make(chan Conn, clients)
	addr := freeAddress(t)
	e, err := New(Options{Keys: keys, Advertise: addr, Open: func(*http.Request, Info) (func(Conn), error) {
		return func(c Conn) {
			conns <- c
			for {
				if _, err := c.Receive(); err != nil {
					return
				}
			}
		}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/hub", e)
	mux.Handle("/hub/negotiate", e)
	srv := serverAt(t, addr, mux)
	var dialed atomic.Int64
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			dialed.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	b := start(t, Options{Keys: keys}, func(Conn) {})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	k := keys.Keys()
	var all []Conn
	var toks []string
	for range clients {
		tok := token{until: time.Now().Add(time.Minute), id: newID(), owner: e.owner, address: addr}
		tok.sign(&k[0])
		resp, err := client.Get(b.http.URL + "/hub?id=" + tok.text)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		all = append(all, wait(t, conns))
		toks = append(toks, tok.text)
	}
	before := int64(0)
	for round := range rounds {
		if round == 1 {
			before = dialed.Load()
		}
		var wg sync.WaitGroup
		for _, tok := range toks {
			wg.Go(func() {
				resp, err := client.Get(b.http.URL + "/hub?id=" + tok)
				if err != nil {
					t.Error(err)
					return
				}
				if resp.Body.Close(); resp.StatusCode != 200 {
					t.Errorf("got %d", resp.StatusCode)
				}
			})
		}
		for _, c := range all {
			wg.Go(func() {
				if err := c.Send(text("x"), soon()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	again := dialed.Load() - before
	t.Logf("%d connections to the owner for the first round, %d for %d more", before, again, rounds-1)
	if again > clients/2 {
		t.Errorf("%d polls of %d clients took %d new connections to the owner", (rounds-1)*clients, clients, again)
	}
	for _, c := range all {
		c.CloseNow()
	}
	e.Wait(t.Context())
	e.Close()
}
