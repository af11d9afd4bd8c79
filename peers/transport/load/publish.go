package main

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/status"
	pbv1 "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protobuf/v1"
)

func publishFlags(flags *flag.FlagSet, o *options) {
	flags.StringVar(&o.kind, "kind", "lease", "what agents publish: lease or work")
	flags.DurationVar(&o.seconds, "seconds", 10*time.Second, "how long is measured")
	flags.DurationVar(&o.warm, "warm", 2*time.Second, "how long agents publish before that, so that bursts are over")
}

// retryInterval is how soon a status that was refused is sent again.
const retryInterval = 10 * time.Millisecond

type publishResult struct {
	Published int64            `json:"published"`
	PerSecond float64          `json:"perSecond"`
	Latency   quantiles        `json:"latency"`
	Errors    map[string]int64 `json:"errors"`
	CPU       float64          `json:"cpu"`
}

// publish runs one agent per cluster, each with one Publish in flight. A lease is renewed with the version that the server's
// echo brought, as agents must; a work's status needs no echo.
func publish(ctx context.Context, o *options) (any, error) {
	dialer, err := newDialer(o)
	if err != nil {
		return nil, err
	}
	dataType := map[string]string{"lease": leases, "work": works}[o.kind]
	if dataType == "" {
		return nil, fmt.Errorf("--kind is lease or work, not %q", o.kind)
	}
	agents := make([]*publisher, o.clusters)
	err = each(o.clusters, 50, func(number int) error {
		agents[number] = &publisher{cluster: o.cluster(number), kind: o.kind, changed: make(chan struct{}, 1)}
		return agents[number].connect(ctx, dialer, dataType)
	})
	if err != nil {
		return nil, err
	}
	say(map[string]string{"event": "ready"})
	measured := &measurement{errors: map[string]int64{}}
	// Agents' calls have no deadline, and one that differs with every call would have every head decoded anew.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, stop)()
	defer stop()
	var all sync.WaitGroup
	for _, agent := range agents {
		all.Add(1)
		go func() { defer all.Done(); agent.run(running, measured) }()
	}
	return measured.take(ctx, o, stop, &all)
}

type measurement struct {
	on      atomic.Bool
	lock    sync.Mutex
	samples []time.Duration
	errors  map[string]int64
}

// take measures what goes on for a while, then stops it.
func (m *measurement) take(ctx context.Context, o *options, stop func(), all *sync.WaitGroup) (any, error) {
	if err := pause(ctx, o.warm); err != nil {
		return nil, err
	}
	say(map[string]string{"event": "measuring"})
	cpu, began := ownCPU(), time.Now()
	m.on.Store(true)
	if err := pause(ctx, o.seconds); err != nil {
		return nil, err
	}
	m.on.Store(false)
	took, spent := time.Since(began), ownCPU()-cpu
	say(map[string]string{"event": "measured"})
	stop()
	all.Wait()
	published := int64(len(m.samples))
	return publishResult{published, float64(published) / took.Seconds(), quantilesOf(m.samples), m.errors, spent}, nil
}

func (m *measurement) record(took time.Duration, err error) {
	if !m.on.Load() {
		return
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	if err != nil {
		m.errors[status.Code(err).String()]++
		return
	}
	m.samples = append(m.samples, took)
}

type publisher struct {
	cluster, kind string
	client        pbv1.CloudEventServiceClient
	lock          sync.Mutex
	object        *object
	changed       chan struct{}
}

// connect subscribes and asks for the object that is published about.
func (p *publisher) connect(ctx context.Context, dialer *dialer, dataType string) error {
	connection, err := dialer.dial(p.cluster)
	if err != nil {
		return err
	}
	p.client = pbv1.NewCloudEventServiceClient(connection)
	stream, err := subscribe(ctx, connection, p.cluster, dataType)
	if err != nil {
		return err
	}
	go p.follow(stream)
	// Upstream counts a subscriber only after its head is sent, so the answer to the first request may be lost.
	for {
		if _, err := p.client.Publish(ctx, resyncRequest(p.cluster, dataType, nil)); err != nil {
			return fmt.Errorf("resync of %s: %w", p.cluster, err)
		}
		select {
		case <-p.changed:
			return nil
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return fmt.Errorf("%s has no %s", p.cluster, p.kind)
		}
	}
}

func (p *publisher) follow(stream pbv1.CloudEventService_SubscribeClient) {
	for {
		received, err := stream.Recv()
		if err != nil {
			return
		}
		if received.Type == heartbeats {
			continue
		}
		found, err := read(received)
		if err != nil {
			continue
		}
		p.lock.Lock()
		p.object = found
		p.lock.Unlock()
		select {
		case p.changed <- struct{}{}:
		default:
		}
	}
}

func (p *publisher) run(ctx context.Context, measured *measurement) {
	for turn := 1; ctx.Err() == nil; turn++ {
		p.lock.Lock()
		current := p.object
		p.lock.Unlock()
		request := workStatus(p.cluster, current, turn)
		if p.kind == "lease" {
			request = leaseRenewal(p.cluster, current)
		}
		began := time.Now()
		_, err := p.client.Publish(ctx, request)
		if ctx.Err() != nil {
			return
		}
		measured.record(time.Since(began), err)
		if p.kind == "lease" {
			p.await(ctx)
		} else if err != nil && pause(ctx, retryInterval) != nil {
			return
		}
	}
}

// await waits for the echo of what was published. One that is lost must not end the loop.
func (p *publisher) await(ctx context.Context) {
	select {
	case <-p.changed:
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
}

func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-time.After(length):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
