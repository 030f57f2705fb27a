package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"
)

// readyLine is what redis-server logs once it accepts connections.
const readyLine = "eady to accept connections"

// logLimit bounds the output kept for failure messages, in bytes.
const logLimit = 64 << 10

// process is one run of redis-server.
type process struct {
	cmd    *exec.Cmd
	log    *outputLog
	exited chan struct{} // closed when the process has been reaped
}

// startProcess runs redis-server and waits until it accepts connections.
func startProcess(binary string, args []string) (*process, error) {
	p := &process{
		cmd:    exec.Command(binary, args...),
		log:    &outputLog{ready: make(chan struct{})},
		exited: make(chan struct{}),
	}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	tieToParent(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		p.cmd.Wait() // its error only says how we ended it
	}()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	select {
	case <-p.log.ready:
		return p, nil
	case <-p.exited:
		return nil, fmt.Errorf("redis-server ended at start:\n%s", p.log)
	case <-ctx.Done():
		p.kill()
		return nil, fmt.Errorf("redis-server not ready after %v:\n%s", time.Duration(startTimeout), p.log)
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the process and waits until it is gone; a frozen one dies too.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.exited
}

var errNoSignals = errors.New("this system has no SIGSTOP")

// outputLog collects the server's output and notices the ready line.
type outputLog struct {
	ready chan struct{}

	mu    sync.Mutex
	text  []byte
	found bool
}

// Write never fails; what exceeds the limit is forgotten, oldest first.
func (l *outputLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if !l.found && bytes.Contains(l.text, []byte(readyLine)) {
		l.found = true
		close(l.ready)
	}
	if excess := len(l.text) - logLimit; excess > 0 {
		l.text = append(l.text[:0], l.text[excess:]...)
	}
	return len(p), nil
}

func (l *outputLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
