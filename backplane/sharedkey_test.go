package backplane_test

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/backplane"
	"github.com/switchboard-hub/switchboard/internal/redistest"
)

// keyOf gives a shared key, from Redis if there is a link.
func keyOf(t *testing.T, r instance, name string) backplane.SharedKey {
	t.Helper()
	key, err := r.SharedKey(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func current(key backplane.SharedKey) string {
	now, _ := key.Keys()
	return string(now)
}

func TestSharedKeyAppearsInRedis(t *testing.T) {
	server := redistest.Start(t)
	r := start(t, backplane.Options{URL: server.URL(), KeyPrefix: "app:"})
	subscribe(t, r, ignore, "up")
	key := keyOf(t, r, "token-key")
	if got := server.Do("GET", "app:token-key"); got != current(key) {
		t.Error("the stored key is another one")
	}
	if ttl := server.Do("TTL", "app:token-key").(int64); ttl < 590 || ttl > 600 {
		t.Errorf("TTL %d s, want 600", ttl)
	}
	if got, want := server.Keys(), []string{"app:token-key"}; !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q", got, want)
	}
}

func TestSharedKeySurvivesRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, two := start(t, backplane.Options{URL: server.URL()}), start(t, backplane.Options{URL: server.URL()})
	subscribe(t, one, ignore, "up")
	subscribe(t, two, ignore, "up")
	a, b := keyOf(t, one, "token-key"), keyOf(t, two, "token-key")
	before := current(a)
	server.Restart() // empty
	eventually(t, "the key is back", func() bool {
		stored, err := server.TryDo("GET", "sb:token-key")
		return err == nil && stored == before
	})
	if current(a) != before || current(b) != before {
		t.Error("the key has changed")
	}
}

func TestSharedKeyThatDiffers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := start(t, backplane.Options{URL: server.URL()})
	early := keyOf(t, r, "token-key") // perhaps before there is a link
	subscribe(t, r, ignore, "up")
	eventually(t, "the key is stored", func() bool {
		stored, err := server.TryDo("GET", "sb:token-key")
		return err == nil && stored == current(early)
	})
	var olds []string
	for i := range 6 {
		olds = append(olds, current(early))
		foreign := strings.Repeat(strconv.Itoa(i), 32)
		server.Do("SET", "sb:token-key", foreign)
		server.Do("CLIENT", "KILL", "TYPE", "pubsub") // a new link looks at once
		eventually(t, "the stored key is current", func() bool { return current(early) == foreign })
	}
	now, previous := early.Keys()
	if len(previous) != 4 {
		t.Errorf("%d previous keys, want the newest 4", len(previous))
	}
	for i, key := range previous {
		if want := olds[len(olds)-1-i]; string(key) != want {
			t.Errorf("previous key %d is %q, want %q", i, key, want)
		}
	}
	server.Do("SET", "sb:token-key", "short")
	links := r.redis.Stats().Links
	server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	eventually(t, "a new link", func() bool { return r.redis.Stats().Links > links })
	if _, err := r.Receivers(t.Context(), "up"); err != nil {
		t.Error(err)
	}
	if again, _ := early.Keys(); !bytes.Equal(again, now) {
		t.Errorf("took over a key of %d bytes", len(again))
	}
}

func TestSharedKeyTellsTheTimeOfRedis(t *testing.T) {
	server := redistest.Start(t)
	r := start(t, backplane.Options{URL: server.URL()})
	subscribe(t, r, ignore, "up")
	key := keyOf(t, r, "token-key")
	reply := server.Do("TIME").([]any)
	seconds, err := strconv.ParseInt(reply[0].(string), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if d := key.Now().Sub(time.Unix(seconds, 0)); d < 0 || d > 5*time.Second {
		t.Errorf("Now is %v after Redis's time", d)
	}
}
