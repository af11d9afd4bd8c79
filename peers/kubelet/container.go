package main

import (
	"context"
	"io"
	"log"
	"os/exec"
	"sync"
	"time"
)

// mainProcess is a container's: what it says is kept for logs and told to whoever is attached; whenever it ends, another begins.
type mainProcess struct {
	argv []string

	lock  sync.Mutex
	grown *sync.Cond
	said  []byte
	stdin io.WriteCloser
	life  int
}

func newMainProcess(argv []string) *mainProcess {
	p := &mainProcess{argv: argv}
	p.grown = sync.NewCond(&p.lock)
	return p
}

func (p *mainProcess) run() {
	for {
		command := exec.Command(p.argv[0], p.argv[1:]...)
		command.Stdout, command.Stderr = p, p
		stdin, err := command.StdinPipe()
		if err == nil {
			err = command.Start()
		}
		if err != nil {
			log.Fatal(err)
		}
		p.lock.Lock()
		p.stdin = stdin
		p.lock.Unlock()
		_ = command.Wait()
		p.lock.Lock()
		p.life++
		p.lock.Unlock()
		p.grown.Broadcast()
		time.Sleep(50 * time.Millisecond)
	}
}

func (p *mainProcess) Write(piece []byte) (int, error) {
	p.lock.Lock()
	p.said = append(p.said, piece...)
	p.lock.Unlock()
	p.grown.Broadcast()
	return len(piece), nil
}

// attach joins the streams to the process until that ends.
func (p *mainProcess) attach(ctx context.Context, in io.Reader, out io.Writer) error {
	p.lock.Lock()
	stdin, life, from := p.stdin, p.life, len(p.said)
	p.lock.Unlock()
	if in != nil {
		go func() { _, _ = io.Copy(stdin, in) }()
	}
	p.tell(ctx, out, from, func() bool { return p.life == life })
	return nil
}

// follow tells what was said from the beginning on, and what will be where that is wanted.
func (p *mainProcess) follow(ctx context.Context, out io.Writer, on bool) {
	p.tell(ctx, out, 0, func() bool { return on })
}

func (p *mainProcess) tell(ctx context.Context, out io.Writer, from int, more func() bool) {
	defer context.AfterFunc(ctx, p.grown.Broadcast)()
	for {
		p.lock.Lock()
		for len(p.said) == from && more() && ctx.Err() == nil {
			p.grown.Wait()
		}
		piece := p.said[from:]
		p.lock.Unlock()
		if len(piece) == 0 || ctx.Err() != nil {
			return
		}
		from += len(piece)
		if out == nil {
			continue
		}
		if _, err := out.Write(piece); err != nil {
			return
		}
	}
}
