package client

import (
	"fmt"
	"sync"
	"time"
)

// run looks after the sessions of one life and ends with it.
func (c *Client) run(l *life, s *session) {
	defer close(l.over)
	defer l.stop()
	var dispatcher sync.WaitGroup
	dispatcher.Go(func() { c.dispatch(l) })

	var err error
	for s != nil {
		e := s.finish(l.hurry)
		err = e.err
		if l.ctx.Err() != nil {
			break
		}
		c.opts.Logger.Info("connection lost", "conn", s.connectionID, "err", err)
		s = nil
		if e.reconnect {
			s, err = c.reconnect(l, err)
		}
	}
	if l.ctx.Err() != nil { // Stop
		err = nil
	}
	c.setState(l, Disconnecting)
	c.opts.Logger.Info("closed", "err", err)
	l.in.put(nil, event{callback: func() {
		c.retire()
		c.tellClosed(err)
	}})
	l.in.close()
	dispatcher.Wait()
	l.join()
}

// reconnect asks the policy and connects until one of them gives up. It
// returns nil and the error for OnClosed if there is no new session.
func (c *Client) reconnect(l *life, cause error) (*session, error) {
	c.lose(l)
	if c.opts.Reconnect == nil {
		return nil, cause
	}
	lost := time.Now()
	delay, ok := c.opts.Reconnect(Retry{Err: cause})
	if !ok {
		return nil, cause
	}
	c.setState(l, Reconnecting)
	l.in.put(l.ctx.Done(), event{callback: func() { c.tellReconnecting(cause) }})
	last := cause
	for attempt := 1; ; attempt++ {
		if !sleep(l, delay) {
			return nil, nil
		}
		s, err := c.connectFor(l.ctx, l)
		if err == nil {
			if c.resume(l, s) {
				return s, nil
			}
			return nil, nil
		}
		if l.ctx.Err() != nil {
			return nil, nil
		}
		c.opts.Logger.Warn("reconnect failed", "attempt", attempt, "err", err)
		last = err
		if delay, ok = c.opts.Reconnect(Retry{Attempt: attempt, Elapsed: time.Since(lost), Err: last}); !ok {
			return nil, fmt.Errorf("%w after %d attempts: %w", ErrReconnectFailed, attempt, last)
		}
	}
}

// resume makes s the session and lets the callbacks know before anything that
// arrives on it. It returns false if Stop was called.
func (c *Client) resume(l *life, s *session) bool {
	if !c.adopt(l, s) {
		s.drop()
		return false
	}
	c.opts.Logger.Info("reconnected", "conn", s.connectionID)
	l.in.put(s.done, event{callback: func() { c.tellReconnected(s.connectionID) }})
	s.start()
	return true
}

// lose takes the session away from callers.
func (c *Client) lose(l *life) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.ctx.Err() == nil {
		c.session = nil
	}
}

// setState changes the state unless Stop has.
func (c *Client) setState(l *life, state State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.ctx.Err() == nil {
		c.state = state
	}
}

// sleep waits, and returns false if Stop was called.
func sleep(l *life, d time.Duration) bool {
	if d <= 0 {
		return l.ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}

func (c *Client) tellReconnecting(err error) {
	c.mu.Lock()
	callbacks := c.reconnecting
	c.mu.Unlock()
	for _, f := range callbacks {
		f(err)
	}
}

func (c *Client) tellReconnected(connectionID string) {
	c.mu.Lock()
	callbacks := c.reconnected
	c.mu.Unlock()
	for _, f := range callbacks {
		f(connectionID)
	}
}

func (c *Client) tellClosed(err error) {
	c.mu.Lock()
	callbacks := c.closed
	c.mu.Unlock()
	for _, f := range callbacks {
		f(err)
	}
}
