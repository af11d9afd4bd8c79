package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// LoadResult is what one verb did.
type LoadResult struct {
	Requests int     `json:"requests"`
	Seconds  float64 `json:"seconds"`
	PerSec   float64 `json:"per_second"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
}

// load runs one verb with several clients until the time or the count is over. Clients take numbers from one counter,
// so no two work on one object at a time (pools are much larger than the number of clients).
func load(s *Server, o Options) (any, error) {
	connections := make([]*Connection, o.Clients)
	for i := range connections {
		connection, err := s.connect()
		if err != nil {
			return nil, err
		}
		defer connection.close()
		connections[i] = connection
	}
	var next atomic.Int64
	var group sync.WaitGroup
	latencies := make([][]time.Duration, o.Clients)
	failures := make([]error, o.Clients)
	start := time.Now()
	deadline := start.Add(time.Duration(o.Seconds * float64(time.Second)))
	for i, connection := range connections {
		group.Add(1)
		go func() {
			defer group.Done()
			for time.Now().Before(deadline) {
				turn := next.Add(1) - 1
				if o.Count > 0 && turn >= int64(o.Count) {
					return
				}
				index := o.First + int(turn)
				if o.Pool > 0 {
					index = o.First + int(turn%int64(o.Pool))
				}
				request, err := requestFor(s, o, o.Verb, objectName(o.Prefix, index), index, start.UnixNano()+turn)
				if err != nil {
					failures[i] = err
					return
				}
				began := time.Now()
				status, _, head, err := connection.send(request)
				if err == nil && status != 200 && status != 201 {
					err = fmt.Errorf("%s %d: %d %s", o.Verb, index, status, head)
				}
				if err != nil {
					failures[i] = err
					return
				}
				latencies[i] = append(latencies[i], time.Since(began))
			}
		}()
	}
	group.Wait()
	elapsed := time.Since(start).Seconds()
	all := []time.Duration{}
	for i := range latencies {
		if failures[i] != nil {
			return nil, failures[i]
		}
		all = append(all, latencies[i]...)
	}
	result := LoadResult{Requests: len(all), Seconds: elapsed, PerSec: float64(len(all)) / elapsed}
	result.P50, result.P99 = percentile(all, 0.50), percentile(all, 0.99)
	return result, nil
}
