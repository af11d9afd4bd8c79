package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	pbv1 "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protobuf/v1"
)

func hubFlags(flags *flag.FlagSet, o *options) {
	flags.StringVar(&o.kube, "kube", "", "URL of the hub's API server")
	flags.StringVar(&o.kubeCA, "kube-ca", "", "file of its CA")
	flags.StringVar(&o.token, "token", "", "bearer token of somebody who may write works")
}

func latencyFlags(flags *flag.FlagSet, o *options) {
	hubFlags(flags, o)
	flags.Float64Var(&o.rate, "rate", 50, "writes per second, in turns over all clusters that read")
	flags.DurationVar(&o.seconds, "seconds", 10*time.Second, "how long is written")
	flags.IntVar(&o.silent, "silent", 0, "how many further clusters subscribe and never read")
	flags.IntVar(&o.fill, "fill", 250, "writes to each silent cluster before anything is measured")
	flags.IntVar(&o.size, "size", 4096, "bytes of a work to a silent cluster")
}

type latencyResult struct {
	Written   int       `json:"written"`
	Delivered int       `json:"delivered"`
	Latency   quantiles `json:"latency"`
	// WriteLatency is the API server's own share.
	WriteLatency quantiles `json:"writeLatency"`
	// Added is how much later than the writer its answer the agent had the work: the gRPC server's share. Below zero it was earlier.
	Added quantiles `json:"added"`
}

// latency writes works on the hub and sees when their agents have them. A write counts from the moment the hub is asked for it, which
// is noted in the work. Silent clusters are the last ones; theirs are full before it begins.
func latency(ctx context.Context, o *options) (any, error) {
	dialer, err := newDialer(o)
	if err != nil {
		return nil, err
	}
	hub, err := newHub(o)
	if err != nil {
		return nil, err
	}
	seen := &arrivals{delays: map[int64]time.Duration{}}
	err = each(o.clusters+o.silent, 50, func(number int) error {
		cluster := o.cluster(number)
		connection, err := dialer.dial(cluster)
		if err != nil {
			return err
		}
		stream, err := subscribe(ctx, connection, cluster, works)
		if err == nil && number < o.clusters {
			go seen.follow(stream)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	say(map[string]string{"event": "ready"})
	for turn := range o.fill {
		if o.silent == 0 {
			break
		}
		err := each(o.silent, 4, func(number int) error {
			return hub.write(ctx, o.cluster(o.clusters+number), fmt.Sprint(turn)+strings.Repeat("x", o.size))
		})
		if err != nil {
			return nil, err
		}
	}
	say(map[string]string{"event": "measuring"})
	writes := int(o.rate * o.seconds.Seconds())
	took := make([]time.Duration, writes)
	sent := make([]int64, writes)
	var all sync.WaitGroup
	failed := make(chan error, writes)
	began := time.Now()
	for number := range writes {
		due := began.Add(time.Duration(float64(number) / o.rate * float64(time.Second)))
		if err := pause(ctx, time.Until(due)); err != nil {
			return nil, err
		}
		all.Add(1)
		go func() {
			defer all.Done()
			start := time.Now()
			sent[number] = start.UnixNano()
			if err := hub.write(ctx, o.cluster(number%o.clusters), fmt.Sprint(sent[number])); err != nil {
				failed <- err
			}
			took[number] = time.Since(start)
		}()
	}
	all.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return nil, err
	}
	// What has not come by then counts as not delivered.
	for waited := 0; waited < 100 && seen.count() < writes; waited++ {
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	delays := seen.taken()
	var samples, added []time.Duration
	for number, moment := range sent {
		if delay, came := delays[moment]; came {
			samples = append(samples, delay)
			added = append(added, delay-took[number])
		}
	}
	return latencyResult{writes, len(samples), quantilesOf(samples), quantilesOf(took), quantilesOf(added)}, nil
}

// arrivals are the works that came, by the moment that is noted in them: how long after that they came first.
type arrivals struct {
	lock   sync.Mutex
	delays map[int64]time.Duration
}

func (a *arrivals) count() int {
	a.lock.Lock()
	defer a.lock.Unlock()
	return len(a.delays)
}

func (a *arrivals) taken() map[int64]time.Duration {
	a.lock.Lock()
	defer a.lock.Unlock()
	return maps.Clone(a.delays)
}

func (a *arrivals) follow(stream pbv1.CloudEventService_SubscribeClient) {
	type payload struct {
		Manifests []struct {
			Data struct {
				Sent string `json:"sent"`
			} `json:"data"`
		} `json:"manifests"`
	}
	for {
		received, err := stream.Recv()
		if err != nil {
			return
		}
		now := time.Now()
		var found payload
		if json.Unmarshal(received.GetBinaryData(), &found) != nil || len(found.Manifests) == 0 {
			continue
		}
		var sent int64
		if _, err := fmt.Sscan(found.Manifests[0].Data.Sent, &sent); err != nil {
			continue
		}
		a.lock.Lock()
		if _, came := a.delays[sent]; !came {
			a.delays[sent] = now.Sub(time.Unix(0, sent))
		}
		a.lock.Unlock()
	}
}

// hub is the way of a user to the works.
type hub struct {
	client     *http.Client
	url, token string
}

func newHub(o *options) (*hub, error) {
	roots := x509.NewCertPool()
	trusted, err := os.ReadFile(o.kubeCA)
	if err != nil {
		return nil, err
	}
	if !roots.AppendCertsFromPEM(trusted) {
		return nil, fmt.Errorf("%s: no certificate in it", o.kubeCA)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: 64, ForceAttemptHTTP2: true}
	return &hub{&http.Client{Transport: transport}, o.kube, o.token}, nil
}

// write changes the cluster's work `load`.
func (h *hub) write(ctx context.Context, cluster, sent string) error {
	manifest := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "load", "namespace": "default"},
		"data": map[string]any{"sent": sent},
	}
	body, _ := json.Marshal(map[string]any{"spec": map[string]any{"workload": map[string]any{"manifests": []any{manifest}}}})
	address := fmt.Sprintf("%s/apis/work.open-cluster-management.io/v1/namespaces/%s/manifestworks/load", h.url, cluster)
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/merge-patch+json")
	request.Header.Set("Authorization", "Bearer "+h.token)
	answer, err := h.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %.200s", address, answer.Status, text)
	}
	return err
}
