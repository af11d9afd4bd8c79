package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	pbv1 "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protobuf/v1"
)

func agentsFlags(flags *flag.FlagSet, o *options) {
	flags.IntVar(&o.streams, "streams", len(dataTypes), "how many streams each agent has")
}

// agents are up when all their streams are and a resync of each is answered. It is told when all are, and after a line `mark` on
// standard input when all are again that have lost their server since. Ends with standard input.
//
// They come back after half a second at first, and after at most five, so that what is measured is the server.
func agents(ctx context.Context, o *options) (any, error) {
	dialer, err := newDialer(o)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	changes := make(chan change, o.clusters)
	for number := range o.clusters {
		agent := &agent{number, o.cluster(number), dataTypes[:o.streams], changes}
		go agent.run(running, dialer)
	}
	up := make([]time.Time, o.clusters)
	began, lines, told := time.Now(), commands(), false
	for {
		select {
		case line, open := <-lines:
			if !open {
				return map[string]string{"event": "ended"}, nil
			}
			if line == "mark" {
				began, told = time.Now(), false
			}
		case one := <-changes:
			up[one.number] = one.up
			if !told && allAfter(up, began) {
				told = true
				say(map[string]any{"event": "up", "seconds": time.Since(began).Seconds(), "latency": timesSince(up, began)})
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d agents are up", countAfter(up, began), o.clusters)
		}
	}
}

func countAfter(up []time.Time, since time.Time) int {
	count := 0
	for _, one := range up {
		if one.After(since) {
			count++
		}
	}
	return count
}

func allAfter(up []time.Time, since time.Time) bool { return countAfter(up, since) == len(up) }

func timesSince(up []time.Time, since time.Time) quantiles {
	samples := make([]time.Duration, len(up))
	for number, one := range up {
		samples[number] = one.Sub(since)
	}
	return quantilesOf(samples)
}

// change tells when an agent came up; the zero time when it went down.
type change struct {
	number int
	up     time.Time
}

type agent struct {
	number  int
	cluster string
	types   []string
	changes chan<- change
}

func (a *agent) run(ctx context.Context, dialer *dialer) {
	wait := 500 * time.Millisecond
	for ctx.Err() == nil {
		if a.live(ctx, dialer) {
			wait = 500 * time.Millisecond
		}
		if pause(ctx, wait/2+rand.N(wait)) != nil {
			return
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// live is one life of a connection; it tells whether the agent was up in it.
func (a *agent) live(ctx context.Context, dialer *dialer) bool {
	connection, err := dialer.dial(a.cluster)
	if err != nil {
		return false
	}
	defer func() { _ = connection.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lost := make(chan struct{}, len(a.types))
	if !a.start(ctx, connection, lost) {
		return false
	}
	a.changes <- change{a.number, time.Now()}
	select {
	case <-lost:
	case <-ctx.Done():
	}
	a.changes <- change{a.number, time.Time{}}
	return true
}

func (a *agent) start(ctx context.Context, connection *grpc.ClientConn, lost chan<- struct{}) bool {
	var all sync.WaitGroup
	failed := make(chan error, len(a.types))
	for _, dataType := range a.types {
		all.Add(1)
		go func() {
			defer all.Done()
			stream, err := subscribe(ctx, connection, a.cluster, dataType)
			if err != nil {
				failed <- err
				return
			}
			go func() {
				for {
					if _, err := stream.Recv(); err != nil {
						lost <- struct{}{}
						return
					}
				}
			}()
			client := pbv1.NewCloudEventServiceClient(connection)
			if _, err := client.Publish(ctx, resyncRequest(a.cluster, dataType, nil)); err != nil {
				failed <- err
			}
		}()
	}
	all.Wait()
	return len(failed) == 0
}
