package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"
	pbv1 "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protobuf/v1"
)

func deliverFlags(flags *flag.FlagSet, o *options) {
	flags.IntVar(&o.streams, "streams", 1, "how many streams each connection has, one per data type")
	flags.IntVar(&o.count, "count", 1000, "how many events are expected, over all streams")
}

type deliverResult struct {
	Deliveries int64   `json:"deliveries"`
	Seconds    float64 `json:"seconds"`
	PerSecond  float64 `json:"perSecond"`
	CPU        float64 `json:"cpu"`
}

// deliver counts events as they come, without looking into them: what a receiver does with an event is not the server's cost.
// Time runs from the first one to the last.
func deliver(ctx context.Context, o *options) (any, error) {
	if o.streams > len(dataTypes) {
		return nil, fmt.Errorf("--streams is at most %d", len(dataTypes))
	}
	dialer, err := newDialer(o, grpc.WithDefaultCallOptions(grpc.ForceCodecV2(counting{})))
	if err != nil {
		return nil, err
	}
	tally := &tally{wanted: int64(o.count), full: make(chan struct{}), failed: make(chan error, 1)}
	err = each(o.clusters, 50, func(number int) error {
		cluster := o.cluster(number)
		connection, err := dialer.dial(cluster)
		if err != nil {
			return err
		}
		for _, dataType := range dataTypes[:o.streams] {
			stream, err := subscribe(ctx, connection, cluster, dataType)
			if err != nil {
				return err
			}
			go tally.follow(ctx, stream)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	cpu := ownCPU()
	say(map[string]string{"event": "ready"})
	select {
	case <-tally.full:
	case err := <-tally.failed:
		return nil, fmt.Errorf("after %d of %d events: %w", tally.count.Load(), tally.wanted, err)
	case <-ctx.Done():
		return nil, fmt.Errorf("%d of %d events came", tally.count.Load(), tally.wanted)
	}
	seconds := time.Duration(tally.last.Load() - tally.began.Load()).Seconds()
	return deliverResult{tally.wanted, seconds, float64(tally.wanted) / seconds, ownCPU() - cpu}, nil
}

type tally struct {
	wanted             int64
	count, began, last atomic.Int64
	full               chan struct{}
	failed             chan error
}

func (t *tally) follow(ctx context.Context, stream pbv1.CloudEventService_SubscribeClient) {
	var received counted
	for {
		if err := stream.RecvMsg(&received); err != nil {
			if ctx.Err() == nil {
				select {
				case t.failed <- err:
				default:
				}
			}
			return
		}
		if received.heartbeat {
			continue
		}
		number := t.count.Add(1)
		if number == 1 {
			t.began.Store(time.Now().UnixNano())
		}
		if number == t.wanted {
			t.last.Store(time.Now().UnixNano())
			close(t.full)
		}
	}
}

// counted is a message of which is only known whether it counts.
type counted struct{ heartbeat bool }

// counting is a codec that reads nothing but an event's type.
type counting struct{}

func (counting) Name() string { return proto.Name }

func (counting) Marshal(message any) (mem.BufferSlice, error) {
	written, err := protobuf.Marshal(message.(protobuf.Message))
	return mem.BufferSlice{mem.SliceBuffer(written)}, err
}

func (counting) Unmarshal(data mem.BufferSlice, message any) error {
	received, ok := message.(*counted)
	if !ok {
		return protobuf.Unmarshal(data.Materialize(), message.(protobuf.Message))
	}
	received.heartbeat = false
	// A heartbeat is small, and an event of any resource is not.
	if data.Len() > 256 {
		return nil
	}
	received.heartbeat = bytes.Contains(data.Materialize(), protowire.AppendString(nil, heartbeats))
	return nil
}
