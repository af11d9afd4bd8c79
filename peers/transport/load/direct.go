package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

func directFlags(flags *flag.FlagSet, o *options) {
	hubFlags(flags, o)
	flags.DurationVar(&o.seconds, "seconds", 10*time.Second, "how long is measured")
	flags.DurationVar(&o.warm, "warm", 2*time.Second, "how long is written before that")
}

// direct writes the status of works straight to the hub's API server, with nothing in between: what any server of events can
// reach at most on this machine. One write per cluster is under way.
func direct(ctx context.Context, o *options) (any, error) {
	hub, err := newHub(o)
	if err != nil {
		return nil, err
	}
	measured := &measurement{errors: map[string]int64{}}
	running, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	for number := range o.clusters {
		all.Add(1)
		go func() { defer all.Done(); hub.report(running, o.cluster(number), measured) }()
	}
	return measured.take(ctx, o, stop, &all)
}

// report is one cluster's writer: each write is for the version that the last one has brought.
func (h *hub) report(ctx context.Context, cluster string, measured *measurement) {
	work, err := h.work(ctx, http.MethodGet, cluster, "", nil)
	for turn := 1; ctx.Err() == nil; turn++ {
		if err != nil {
			// Somebody else wrote.
			measured.record(0, err)
			work, err = h.work(ctx, http.MethodGet, cluster, "", nil)
			continue
		}
		began := time.Now()
		work, err = h.work(ctx, http.MethodPut, cluster, "/status", map[string]any{
			"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
			"metadata": map[string]any{
				"name": work.Metadata.Name, "namespace": cluster, "uid": work.Metadata.UID, "resourceVersion": work.Metadata.ResourceVersion,
			},
			"status": map[string]any{"conditions": appliedConditions(work, turn)},
		})
		if err == nil {
			measured.record(time.Since(began), nil)
		}
	}
}

// work asks for the cluster's work `load`, or writes it, and gives it as the hub has it then.
func (h *hub) work(ctx context.Context, method, cluster, subresource string, body any) (*object, error) {
	var content []byte
	if body != nil {
		content, _ = json.Marshal(body)
	}
	address := fmt.Sprintf(
		"%s/apis/work.open-cluster-management.io/v1/namespaces/%s/manifestworks/load%s", h.url, cluster, subresource)
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+h.token)
	answer, err := h.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s %.200s", address, answer.Status, text)
	}
	found := &object{}
	return found, json.Unmarshal(text, found)
}
