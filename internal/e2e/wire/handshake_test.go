package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/internal/server"
)

// hubPath is where an instance serves its hub.
const hubPath = server.DefaultHubPath

func TestHandshakeThatIsNeverFinished(t *testing.T) {
	t.Parallel()
	const limit = 400 * time.Millisecond
	tune := func(o *hub.Options) { o.HandshakeTimeout = limit }
	for _, tt := range []struct {
		name string
		first,
		again string // sent every now and then
	}{
		{"says nothing", "", ""},
		{"leaves off the separator", strings.TrimSuffix(hello(jsonDialect{}), separator), ""},
		{"dribbles spaces instead of the separator", strings.TrimSuffix(hello(jsonDialect{}), separator), " "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var l ledger
			i := tuned(t, tune, l.watch)
			began := time.Now()
			s := open(t, i.Addr(), hubPath)
			if tt.first != "" {
				s.write(message(opText, []byte(tt.first)))
			}
			ended := make(chan struct{})
			var dribbling sync.WaitGroup
			dribbling.Go(func() {
				every := time.NewTicker(limit / 8)
				defer every.Stop()
				for tt.again != "" {
					select {
					case <-ended:
						return
					case <-every.C:
					}
					if s.tryWrite(message(opText, []byte(tt.again))) != nil {
						return // the connection is over
					}
				}
			})
			const refusal = `{"error":"Handshake was canceled."}` + separator
			f, err := s.read(time.Now().Add(patience))
			if err != nil || f.op != opText || string(f.payload) != refusal {
				t.Errorf("got frame %x %q, %v, want %q as text", f.op, f.payload, err, refusal)
			}
			s.expectEnd(patience)
			after := time.Since(began)
			close(ended)
			dribbling.Wait()
			if after < limit || after > limit+grace {
				t.Errorf("closed after %v, want %v", after, limit)
			}
			i.empty(t, grace)
			l.expect(t, 0, 0)
			if n := i.ends(hub.ErrHandshake); n != 1 {
				t.Errorf("%d failed handshakes counted, want 1", n)
			}
		})
	}
}

// Connections that never finish a request hold up neither others nor the end of
// the server. That the server gives up on them after 10 s takes a long run.
func TestConnectionThatAsksForNothing(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	silent, slow := dialTCP(t, i.Addr()), dialTCP(t, i.Addr())
	slow.write([]byte("GET /hub HTTP/1.1\r\nHost: localhost\r\n")) // and no more
	p := join(t, i, jsonDialect{}, hubPath)
	p.works()
	p.reset()
	i.empty(t, patience)
	if wait := time.Duration(full(0, 1)) * (patience + grace); wait > 0 {
		silent.expectEnd(wait)
		slow.expectEnd(wait)
	}
	began := time.Now()
	i.stop()
	if took := time.Since(began); took > grace {
		t.Errorf("the server took %v to end", took)
	}
	silent.expectEnd(grace)
	slow.expectEnd(grace)
}

func TestHandshakeInPieces(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	onBoth(t, func(t *testing.T, d dialect) {
		whole := []byte(hello(d))
		for _, tt := range []struct {
			name  string
			bytes []byte
		}{
			{"separator in a message of its own", append(message(opText, whole[:len(whole)-1]), message(opText, whole[len(whole)-1:])...)},
			{"one byte a message", func() (b []byte) {
				for _, c := range whole {
					b = append(b, message(opText, []byte{c})...)
				}
				return b
			}()},
			{"one byte a frame", fragments(opText, whole, 1)},
			{"as a binary message", message(opBinary, whole)},
			{"with everything JSON allows", message(opText, []byte("\t{ \"x\":[{}], \"\\u0076ersion\" : 3, \"version\":1, \"protocol\":\""+strings.ToUpper(d.name())+"\" }\n"+separator))},
			{"version 0", message(opText, []byte(strings.Replace(hello(d), ":1}", ":0}", 1)))},
			{"version 2", message(opText, []byte(strings.Replace(hello(d), ":1}", ":2}", 1)))},
		} {
			t.Run(tt.name, func(t *testing.T) {
				p := &peer{socket: open(t, i.Addr(), hubPath), dialect: d}
				p.write(tt.bytes)
				p.expectAgreed()
				p.works()
			})
		}
	})
}

func TestHandshakeWithoutItsEndWaitsForIt(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	onBoth(t, func(t *testing.T, d dialect) {
		p := &peer{socket: open(t, i.Addr(), hubPath), dialect: d}
		p.write(message(opText, []byte(strings.TrimSuffix(hello(d), separator))))
		p.stillOpen() // so it was read, and nothing was answered
		p.write(message(opText, []byte(separator)))
		p.expectAgreed()
		p.works()
	})
}

// stillOpen shows that the server has read everything so far, and has had
// nothing to say to it: the next thing that comes is the answer to a ping below
// the hub.
func (s *socket) stillOpen() {
	s.t.Helper()
	s.write(message(opPing, []byte("still there?")))
	f, err := s.readFrame(time.Now().Add(patience))
	if err != nil || f.op != opPong || string(f.payload) != "still there?" {
		s.t.Fatalf("got frame %x %q, %v, want the pong", f.op, f.payload, err)
	}
}

func TestRecordsRightBehindTheHandshake(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	onBoth(t, func(t *testing.T, d dialect) {
		behind := string(d.encode(call("1", "Echo", `["a"]`))) + string(d.encode(call("2", "Echo", `["b"]`)))
		for cut := range len(behind) {
			p := &peer{socket: open(t, i.Addr(), hubPath), dialect: d}
			p.write(append(message(opText, []byte(hello(d)+behind[:cut])), message(d.opcode(), []byte(behind[cut:]))...))
			p.expectAgreed()
			p.expect(result("1", `"a"`), result("2", `"b"`))
			p.reset()
		}
	})
}

// A client need not wait for the answer to its upgrade, nor for that to its
// handshake.
func TestClientThatWaitsForNothing(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	onBoth(t, func(t *testing.T, d dialect) {
		for _, size := range []int{1, 1000, 3000, 5000, 20_000} { // about the buffers of the HTTP server
			p := &peer{socket: dialTCP(t, i.Addr()), dialect: d}
			answer := p.request(upgradeRequest(i.Addr(), hubPath) + string(message(opText, []byte(hello(d)))) +
				string(p.framed(call("1", "Echo", "["+text(size)+"]"))))
			if answer.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("status %d, want 101", answer.StatusCode)
			}
			p.expectAgreed()
			p.expect(result("1", text(size)))
			p.works()
		}
	})
}

func TestBadRecordRightBehindTheHandshake(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	onBoth(t, func(t *testing.T, d dialect) {
		for _, tt := range []struct{ name, bytes, want string }{
			{"is a protocol error", string(d.encode(`{"type":5}`)), closed("")},
			{"is explained where too large", string(d.encode(call("1", "Echo", "["+text(40000)+"]"))), tooLarge(hub.DefaultMaximumReceiveMessageSize)},
			{"is a Close", string(d.encode(`{"type":7}`)), `{"type":7}`},
		} {
			t.Run(tt.name, func(t *testing.T) {
				p := &peer{socket: open(t, i.Addr(), hubPath), dialect: d}
				p.write(message(opText, []byte(hello(d)+tt.bytes)))
				p.expectAgreed()
				p.expectGone(tt.want)
			})
		}
	})
}

func TestRefusedHandshakes(t *testing.T) {
	t.Parallel()
	const unreadable = "An unexpected error occurred during connection handshake."
	var l ledger
	i := start(t, server.Config{}, l.watch)
	detailed := tuned(t, func(o *hub.Options) { o.EnableDetailedErrors = true })
	for _, tt := range []struct{ name, request, want, detail string }{
		{"unknown protocol", `{"protocol":"xml","version":1}`, "The protocol 'xml' is not supported.", ""},
		{"empty protocol", `{"protocol":"","version":1}`, "The protocol '' is not supported.", ""},
		{"protocol with a separator in its name", `{"protocol":"\u001e{}\"","version":1}`, "The protocol '\x1e{}\"' is not supported.", ""},
		{"version 3", `{"protocol":"json","version":3}`, "The server does not support version 3 of the 'json' protocol.", ""},
		{"version 3 of the other one", `{"protocol":"MessagePack","version":3}`, "The server does not support version 3 of the 'MessagePack' protocol.", ""},
		{"not JSON", `hello`, unreadable, "Error reading JSON."},
		{"nothing at all", ``, unreadable, "Error reading JSON."},
		{"not an object", `[1]`, unreadable, "Unexpected JSON Token Type 'Array'. Expected a JSON Object."},
		{"cut off", `{"protocol":"json","version":1`, unreadable, "Error reading JSON."},
		{"two objects", `{"protocol":"json","version":1}{}`, unreadable, "Error reading JSON."},
		{"no protocol", `{"version":1}`, unreadable, "Missing required property 'protocol'."},
		{"no version", `{"protocol":"json"}`, unreadable, "Missing required property 'version'."},
		{"protocol not a string", `{"protocol":1,"version":1}`, unreadable, "Expected 'protocol' to be of type String."},
		{"protocol null", `{"protocol":null,"version":1}`, unreadable, "Expected 'protocol' to be of type String."},
		{"version not a number", `{"protocol":"json","version":"1"}`, unreadable, "Expected 'version' to be of type Number."},
		{"version not an integer", `{"protocol":"json","version":1.5}`, unreadable, "Expected 'version' to be of type Number."},
		{"nested deeply", `{"protocol":"json","version":1,"x":` + strings.Repeat("[", 3000) + strings.Repeat("]", 3000) + `}`, unreadable, "Error reading JSON."},
		{"not UTF-8", "{\"protocol\":\"js\xffon\",\"version\":1}", unreadable, "Error reading JSON."},
		{"a hub message instead", `{"type":6}`, unreadable, "Missing required property 'protocol'."},
		{"too long", `{"protocol":"json","version":1,"x":` + text(32768) + `}`, "Handshake was canceled.", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			refused(t, i, tt.request+separator, tt.want)
			if tt.detail != "" {
				refused(t, detailed, tt.request+separator, tt.want+" InvalidDataException: "+tt.detail)
			}
		})
	}
	i.empty(t, patience)
	l.expect(t, 0, 0)
	if got, want := i.ends(hub.ErrHandshake), 20; got != want {
		t.Errorf("%d failed handshakes counted, want %d", got, want)
	}
}

// refused expects a handshake to be answered by exactly that error, as text,
// and the connection to end politely, without a Close record.
func refused(t *testing.T, i *instance, request, want string) {
	t.Helper()
	s := open(t, i.Addr(), hubPath)
	s.write(message(opText, []byte(request)))
	if f, record := s.next(), `{"error":`+quoted(want)+`}`+separator; f.op != opText || string(f.payload) != record {
		t.Errorf("got frame %x %q, want text %q", f.op, f.payload, record)
	}
	s.expectClose(1000)
	s.write(closeFrame(1000))
	s.expectEnd(patience)
}

func TestHandshakeAnswerComesFirstAndAlone(t *testing.T) {
	t.Parallel()
	greet := func(h *hub.Hub) {
		h.OnConnected(func(ctx context.Context, c *hub.Caller) error {
			var errs []error
			for n := range 3 {
				errs = append(errs, c.Clients().Caller().Send(ctx, "greeting", n))
			}
			return errors.Join(errs...)
		})
	}
	_, fleet := startFleet(t, nil, greet)
	alone := start(t, server.Config{}, greet)
	for _, i := range []*instance{alone, fleet[0]} {
		ctx, cancel := context.WithCancel(t.Context())
		var talking sync.WaitGroup
		for _, from := range append(fleet, alone) { // everybody hears something all the time
			talking.Go(func() {
				every := time.NewTicker(time.Millisecond)
				defer every.Stop()
				for ctx.Err() == nil {
					if err := from.hub().Clients().All().Send(ctx, "news", "x"); err != nil && ctx.Err() == nil {
						t.Error(err)
						return
					}
					<-every.C
				}
			})
		}
		for n := range full(30, 500) {
			d := dialects()[n%2]
			p := join(t, i, d, hubPath) // expects the answer in a message of its own
			greetings := 0
			for greetings < 3 { // record expects whole records in every message
				r, err := p.record(time.Now().Add(patience))
				if err != nil {
					t.Fatal(err)
				}
				if r == invocation("greeting", fmt.Sprintf("[%d]", greetings)) {
					greetings++
				}
			}
			p.reset()
		}
		cancel()
		talking.Wait()
	}
}

func TestSkippedNegotiation(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	for _, tt := range []struct{ name, target string }{
		{"no id", hubPath},
		{"an empty id", hubPath + "?id="},
		{"extra query items", hubPath + "?x=1&y=%20&_=1796054347905&user_id=u"},
		{"a slash behind the path", hubPath + "/"},
		{"a query without anything in it", hubPath + "?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, d := range dialects() {
				join(t, i, d, tt.target).works()
			}
		})
	}
	for _, tt := range []struct{ name, target string }{
		{"an id that nobody gave out", hubPath + "?id=l1yZ0Qx2m7kqE3bN9dVtAw"},
		{"an id that is garbage", hubPath + "?id=%00%ff"},
		{"two ids", hubPath + "?id=a&id=b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := dialTCP(t, i.Addr())
			if answer := s.request(upgradeRequest(i.Addr(), tt.target)); answer.StatusCode != http.StatusNotFound {
				t.Errorf("status %d, want 404 before any upgrade", answer.StatusCode)
			}
		})
	}
}
