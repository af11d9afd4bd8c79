// Program transport-agent is an agent of OCM 1.3 as far as its wire goes: sdk-go's own clients, subscribed and resynced, without
// controllers. What an agent would do by itself it is told to do.
//
//	transport-agent --config FILE --cluster C [--client-id ID] [--bootstrap]
//
// With --bootstrap it has the two streams of a newcomer, else all five. It is driven by JSON lines on standard input, and answers each
// by one on standard output (`{"answer":…}` or `{"error":{"message":…,"reason":…,"code":…}}`). What its caches see change is told
// between them (`{"seen":{"dataType":D,"type":"ADDED",…}}`). Ends with standard input.
//
//	{"op":"create","dataType":D,"object":{…}}        a ManagedCluster, a CertificateSigningRequest or an Event
//	{"op":"patch","dataType":D,"name":N,"patch":{…},"subresource":"status"}   a ManagedCluster, an addon or a ManifestWork, by merge patch
//	{"op":"renew","name":"managed-cluster-lease"}    a Lease, at the version that is cached
//	{"op":"token","name":SA,"seconds":3600}          a token of a ServiceAccount of the cluster's namespace
//	{"op":"list","dataType":D}                       what the cache has
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/constants"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/builder"
)

type command struct {
	Op          string          `json:"op"`
	DataType    string          `json:"dataType"`
	Name        string          `json:"name"`
	Object      json.RawMessage `json:"object"`
	Patch       json.RawMessage `json:"patch"`
	Subresource string          `json:"subresource"`
	Seconds     int64           `json:"seconds"`
}

func main() {
	file := flag.String("config", "", "file of the way to the hub: url, CA, token or certificate")
	cluster := flag.String("cluster", "", "name of the cluster")
	client := flag.String("client-id", "", "source of events about works; <cluster>-work-agent when not given")
	bootstrap := flag.Bool("bootstrap", false, "only the streams of a newcomer")
	flag.Parse()
	if *client == "" {
		*client = *cluster + "-work-agent"
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	_, config, err := builder.NewConfigLoader(constants.ConfigTypeGRPC, *file).LoadConfig()
	if err != nil {
		fail(err)
	}
	agent, err := newAgent(ctx, config, *cluster, *client, *bootstrap)
	if err != nil {
		fail(err)
	}
	say(map[string]string{"event": "ready"})
	scanner := bufio.NewScanner(os.Stdin)
	scanner.Buffer(make([]byte, 1<<20), 64<<20)
	for scanner.Scan() {
		var asked command
		var answer any
		err := json.Unmarshal(scanner.Bytes(), &asked)
		if err == nil {
			answer, err = agent.do(ctx, &asked)
		}
		if err != nil {
			said := map[string]any{"message": err.Error(), "reason": string(apierrors.ReasonForError(err))}
			if status, ok := err.(apierrors.APIStatus); ok {
				said["code"] = status.Status().Code
			}
			say(map[string]any{"error": said})
			continue
		}
		say(map[string]any{"answer": answer})
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

var saying sync.Mutex

func say(what any) {
	saying.Lock()
	defer saying.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(what)
}

// tell says what a cache sees. Its store waits until somebody has read.
func tell(dataType string, changes watch.Interface) {
	for change := range changes.ResultChan() {
		say(map[string]any{"seen": map[string]any{"dataType": dataType, "type": change.Type, "object": change.Object}})
	}
}
