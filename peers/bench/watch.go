package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// WatchResult is how events reached the watchers: latency from the start of the write that caused an event to its
// arrival at one watcher, and how many arrived per second altogether.
type WatchResult struct {
	Events    int     `json:"events"`
	PerSec    float64 `json:"per_second"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	ConnectMS float64 `json:"connect_ms"`
}

var listRevision = regexp.MustCompile(`"resourceVersion":"(\d+)"`)

const writers = 4

func watch(s *Server, o Options) (any, error) {
	control, err := s.connect()
	if err != nil {
		return nil, err
	}
	defer control.close()
	revision, err := currentRevision(s, o, control)
	if err != nil {
		return nil, err
	}
	query := collection(o.Namespace) + "?watch=1&resourceVersion=" + revision
	request := s.request("GET", query, "application/json", "", nil)
	connecting := time.Now()
	watchers := make([]*bufio.Reader, o.Watchers)
	for i := range watchers {
		connection, err := s.connect()
		if err != nil {
			return nil, err
		}
		defer connection.close()
		if watchers[i], err = openWatch(connection, request); err != nil {
			return nil, err
		}
	}
	connected := time.Since(connecting)

	sent := make([]atomic.Int64, o.Writes)
	latencies := make([][]time.Duration, o.Watchers)
	failures := make([]error, o.Watchers)
	var group sync.WaitGroup
	for i, reader := range watchers {
		group.Add(1)
		go func() {
			defer group.Done()
			latencies[i], failures[i] = receive(reader, []byte(`"name":"`+o.Prefix+"-"), sent)
		}()
	}
	began := time.Now()
	if err := writeAll(s, o, sent); err != nil {
		return nil, err
	}
	group.Wait()
	elapsed := time.Since(began).Seconds()
	all := []time.Duration{}
	for i, failure := range failures {
		if failure != nil {
			return nil, failure
		}
		all = append(all, latencies[i]...)
	}
	result := WatchResult{Events: len(all), PerSec: float64(len(all)) / elapsed, ConnectMS: float64(connected) / 1e6}
	result.P50, result.P99 = percentile(all, 0.50), percentile(all, 0.99)
	return result, nil
}

func currentRevision(s *Server, o Options, connection *Connection) (string, error) {
	status, _, head, err := connection.send(s.request("GET", collection(o.Namespace)+"?limit=1", "application/json", "", nil))
	if err != nil {
		return "", err
	}
	found := listRevision.FindSubmatch(head)
	if status != 200 || found == nil {
		return "", fmt.Errorf("no revision in the list: %d %s", status, head)
	}
	return string(found[1]), nil
}

func openWatch(connection *Connection, request []byte) (*bufio.Reader, error) {
	if _, err := connection.socket.Write(request); err != nil {
		return nil, err
	}
	answer, err := http.ReadResponse(connection.reader, nil)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != 200 {
		return nil, fmt.Errorf("watch: %s", answer.Status)
	}
	return bufio.NewReaderSize(answer.Body, 8*1024), nil
}

// receive reads events until every written object was seen.
func receive(reader *bufio.Reader, mark []byte, sent []atomic.Int64) ([]time.Duration, error) {
	latencies := make([]time.Duration, 0, len(sent))
	for len(latencies) < len(sent) {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("watch ended after %d events: %w", len(latencies), err)
		}
		now := time.Now().UnixNano()
		at := bytes.Index(line, mark)
		if at < 0 {
			continue
		}
		digits := line[at+len(mark):]
		index, err := strconv.Atoi(string(digits[:bytes.IndexByte(digits, '"')]))
		if err != nil || index >= len(sent) {
			return nil, fmt.Errorf("unexpected event %.80s", line)
		}
		latencies = append(latencies, time.Duration(now-sent[index].Load()))
	}
	return latencies, nil
}

// writeAll creates the objects, paced or as fast as a few writers can.
func writeAll(s *Server, o Options, sent []atomic.Int64) error {
	clients := writers
	if o.Rate > 0 {
		clients = 1
	}
	var next atomic.Int64
	failures := make(chan error, clients)
	for range clients {
		go func() {
			failures <- func() error {
				connection, err := s.connect()
				if err != nil {
					return err
				}
				defer connection.close()
				start := time.Now()
				for {
					index := int(next.Add(1) - 1)
					if index >= o.Writes {
						return nil
					}
					if o.Rate > 0 {
						time.Sleep(time.Until(start.Add(time.Duration(float64(index) / o.Rate * float64(time.Second)))))
					}
					request, err := requestFor(s, o, "create", objectName(o.Prefix, index), index, time.Now().UnixNano())
					if err != nil {
						return err
					}
					sent[index].Store(time.Now().UnixNano())
					status, _, head, err := connection.send(request)
					if err != nil {
						return err
					}
					if status != 201 {
						return fmt.Errorf("create: %d %s", status, head)
					}
				}
			}()
		}()
	}
	var first error
	for range clients {
		if err := <-failures; err != nil && first == nil {
			first = err
		}
	}
	return first
}
