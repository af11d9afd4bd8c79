package main

import (
	"context"
	"flag"
	"fmt"
	"sync/atomic"
	"time"

	pbv1 "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protobuf/v1"
)

func resyncFlags(flags *flag.FlagSet, o *options) {
	flags.IntVar(&o.count, "count", 5000, "how many works the cluster has")
	flags.IntVar(&o.rounds, "rounds", 3, "how often all of them are asked for")
}

type resyncResult struct {
	// First is the seconds until an agent that knew nothing had all works.
	First float64 `json:"first"`
	// Known are the seconds that each request took in which all works were named at their versions.
	Known []float64 `json:"known"`
	// Sent are the events that came for those requests.
	Sent int64 `json:"sent"`
}

// resync learns all works of one cluster, and asks for them again.
func resync(ctx context.Context, o *options) (any, error) {
	dialer, err := newDialer(o)
	if err != nil {
		return nil, err
	}
	cluster := o.cluster(0)
	connection, err := dialer.dial(cluster)
	if err != nil {
		return nil, err
	}
	client := pbv1.NewCloudEventServiceClient(connection)
	stream, err := subscribe(ctx, connection, cluster, works)
	if err != nil {
		return nil, err
	}
	// Upstream counts a subscriber only after its head is sent.
	if err := pause(ctx, time.Second); err != nil {
		return nil, err
	}
	var received atomic.Int64
	learned, failed := make(chan []known, 1), make(chan error, 1)
	go func() {
		versions := make([]known, 0, o.count)
		for {
			event, err := stream.Recv()
			if err != nil {
				failed <- err
				return
			}
			if event.Type == heartbeats {
				continue
			}
			received.Add(1)
			if len(versions) < o.count {
				attributes := event.Attributes
				versions = append(versions, known{
					attributes["ce-resourceid"].GetCeString(), int64(attributes["ce-resourceversion"].GetCeInteger()),
				})
				if len(versions) == o.count {
					learned <- versions
				}
			}
		}
	}()
	began := time.Now()
	if _, err := client.Publish(ctx, resyncRequest(cluster, works, nil)); err != nil {
		return nil, err
	}
	var versions []known
	select {
	case versions = <-learned:
	case err := <-failed:
		return nil, err
	case <-ctx.Done():
		return nil, fmt.Errorf("%d of %d works came", received.Load(), o.count)
	}
	result := resyncResult{First: time.Since(began).Seconds()}
	before := received.Load()
	for range o.rounds {
		began := time.Now()
		if _, err := client.Publish(ctx, resyncRequest(cluster, works, versions)); err != nil {
			return nil, err
		}
		result.Known = append(result.Known, time.Since(began).Seconds())
	}
	if err := pause(ctx, time.Second); err != nil {
		return nil, err
	}
	result.Sent = received.Load() - before
	return result, nil
}
