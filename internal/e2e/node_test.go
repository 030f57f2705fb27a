package e2e

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/switchboard-hub/switchboard/backplane"
	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/protocol"
	"github.com/switchboard-hub/switchboard/internal/redistest"
)

const (
	// hubKey is the key of every node's hub.
	hubKey = "Test.Host"
	// nodeClientName is how nodes are called in Redis's list of clients.
	nodeClientName = "node"
)

// A node is one instance made from the library: a hub on a backplane of its own
// behind a real listener.
type node struct {
	*hub.Hub
	bp       *backplane.Redis // nil for a node that is alone
	url      string           // of the hub
	stop     func()           // ends it at once and waits
	listener net.Listener
}

// nodeConfig is what a node is made from. The zero value is a node that is
// alone, with a method for every target.
type nodeConfig struct {
	redis   string         // URL of its Redis
	prefix  string         // of its channels
	hub     hub.Options    // name, backplane and authentication are filled in
	prepare func(*hub.Hub) // registers further methods and callbacks

	// wrap, if set, puts something between the hub and its backplane.
	wrap func(*backplane.Redis) hub.Backplane
}

// newNode makes a node and takes its address. Users are who they say they are.
func newNode(cfg nodeConfig) (*node, error) {
	n := &node{}
	if cfg.redis != "" {
		bp, err := backplane.New(backplane.Options{URL: cfg.redis, ChannelPrefix: cfg.prefix, ClientName: nodeClientName})
		if err != nil {
			return nil, err
		}
		n.bp, cfg.hub.Backplane = bp, bp
		if cfg.wrap != nil {
			cfg.hub.Backplane = cfg.wrap(bp)
		}
	}
	cfg.hub.Name = hubKey
	cfg.hub.Authenticate = func(r *http.Request) (*hub.Identity, error) {
		return &hub.Identity{UserID: r.URL.Query().Get("user_id")}, nil
	}
	var err error
	if n.Hub, err = hub.New(cfg.hub); err != nil {
		return nil, err
	}
	handleEveryTarget(n.Hub)
	if cfg.prepare != nil {
		cfg.prepare(n.Hub)
	}
	if n.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	n.url = "http://" + n.listener.Addr().String() + "/hub"
	return n, nil
}

// run serves until ctx ends; the backplane goes last.
func (n *node) run(ctx context.Context) error {
	mux := http.NewServeMux()
	n.Register(mux, "/hub")
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	carry, stopCarrying := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCarrying()
	var carrying, serving errgroup.Group
	if n.bp != nil {
		carrying.Go(func() error { return n.bp.Run(carry) })
	}
	serving.Go(func() error { return n.Run(ctx) })
	serving.Go(func() error {
		if err := srv.Serve(n.listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	<-ctx.Done()
	srv.Close()
	err := serving.Wait()
	stopCarrying()
	return errors.Join(err, carrying.Wait())
}

// startNode runs a node until the test ends or stop is called, and waits until
// it is ready.
func startNode(t testing.TB, cfg nodeConfig) *node {
	t.Helper()
	n, err := newNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := n.run(ctx); err != nil {
			t.Errorf("node: %v", err)
		}
	})
	n.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(n.stop)
	select {
	case <-n.Ready():
	case <-time.After(10 * time.Second):
		t.Fatal("node is not ready")
	}
	return n
}

// startNodes runs nodes on a Redis of their own.
func startNodes(t testing.TB, count int, cfg nodeConfig) (*redistest.Server, []*node) {
	t.Helper()
	rs := redistest.Start(t)
	cfg.redis = rs.URL()
	nodes := make([]*node, count)
	for i := range nodes {
		nodes[i] = startNode(t, cfg)
	}
	return rs, nodes
}

// startEnds runs one node that is alone, which is then both ends, or two that
// share a Redis: messages are sent here and received there.
func startEnds(t testing.TB, instances int, cfg nodeConfig) (here, there *node) {
	t.Helper()
	if instances == 1 {
		n := startNode(t, cfg)
		return n, n
	}
	_, nodes := startNodes(t, 2, cfg)
	return nodes[0], nodes[1]
}

// onOneAndTwo runs a test with both its ends on one instance and on two.
func onOneAndTwo(t *testing.T, test func(t *testing.T, instances int)) {
	t.Helper()
	t.Run("on one instance", func(t *testing.T) { test(t, 1) })
	t.Run("on two instances", func(t *testing.T) { test(t, 2) })
}

// protocolOf spreads clients over the protocols.
func protocolOf(i int) protocol.Protocol {
	all := protocols()
	return all[i%len(all)]
}
