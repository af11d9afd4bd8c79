package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"
	pbv1 "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protobuf/v1"
)

const (
	works      = "io.open-cluster-management.works.v1alpha1.manifestbundles"
	clusters   = "cluster.open-cluster-management.io.v1.managedclusters"
	requests   = "certificates.k8s.io.v1.certificatesigningrequests"
	leases     = "coordination.k8s.io.v1.leases"
	addons     = "addon.open-cluster-management.io.v1alpha1.managedclusteraddons"
	heartbeats = "io.open-cluster-management.cloudevents.heartbeat"
)

// dataTypes are what an agent of five streams subscribes to.
var dataTypes = []string{works, clusters, requests, leases, addons}

func text(value string) *pbv1.CloudEventAttributeValue {
	return &pbv1.CloudEventAttributeValue{Attr: &pbv1.CloudEventAttributeValue_CeString{CeString: value}}
}

func integer(value int32) *pbv1.CloudEventAttributeValue {
	return &pbv1.CloudEventAttributeValue{Attr: &pbv1.CloudEventAttributeValue_CeInteger{CeInteger: value}}
}

// event is one of an agent's; `more` are attributes without their prefix.
func event(cluster, eventType string, data []byte, more map[string]*pbv1.CloudEventAttributeValue) *pbv1.PublishRequest {
	attributes := map[string]*pbv1.CloudEventAttributeValue{
		"ce-clustername":    text(cluster),
		"ce-originalsource": text(""),
		"ce-time": {Attr: &pbv1.CloudEventAttributeValue_CeTimestamp{
			CeTimestamp: timestamppb.Now(),
		}},
		"contenttype": text("application/json"),
	}
	for name, value := range more {
		attributes["ce-"+name] = value
	}
	return &pbv1.PublishRequest{Event: &pbv1.CloudEvent{
		Id: uuid.NewString(), Source: cluster, SpecVersion: "1.0", Type: eventType, Attributes: attributes,
		Data: &pbv1.CloudEvent_BinaryData{BinaryData: data},
	}}
}

type known struct {
	ResourceID      string `json:"resourceID"`
	ResourceVersion int64  `json:"resourceVersion"`
}

func resyncRequest(cluster, dataType string, versions []known) *pbv1.PublishRequest {
	if versions == nil {
		versions = []known{}
	}
	body, _ := json.Marshal(map[string]any{"resourceVersions": versions})
	return event(cluster, dataType+".spec.resync_request", body, nil)
}

type object struct {
	Metadata struct {
		Name            string            `json:"name"`
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Generation      int64             `json:"generation"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
}

// read gives the object that an event is about: in the body, or of works in an attribute.
func read(received *pbv1.CloudEvent) (*object, error) {
	found := &object{}
	body := received.GetBinaryData()
	if metadata := received.Attributes["ce-metadata"]; metadata != nil {
		body = fmt.Appendf(nil, `{"metadata":%s}`, metadata.GetCeString())
	}
	if err := json.Unmarshal(body, found); err != nil {
		return nil, fmt.Errorf("%s: %w", received.Type, err)
	}
	return found, nil
}

// leaseRenewal is what a registration agent sends every minute.
func leaseRenewal(cluster string, lease *object) *pbv1.PublishRequest {
	metadata := map[string]any{
		"name": lease.Metadata.Name, "namespace": cluster, "uid": lease.Metadata.UID,
		"resourceVersion": lease.Metadata.ResourceVersion, "labels": lease.Metadata.Labels,
	}
	body, _ := json.Marshal(map[string]any{
		"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": metadata,
		"spec": map[string]any{"leaseDurationSeconds": 60, "renewTime": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")},
	})
	return event(cluster, leases+".spec.update_request", body, map[string]*pbv1.CloudEventAttributeValue{
		"resourceid": text(lease.Metadata.UID), "resourceversion": text(lease.Metadata.ResourceVersion),
	})
}

var step atomic.Int64

// sequence is a snowflake of node 1, as sdk-go makes them.
func sequence() string {
	now := time.Now().UnixMilli() - 1288834974657
	return strconv.FormatInt(now<<22|1<<12|step.Add(1)&0xfff, 10)
}

func appliedConditions(work *object, turn int) []map[string]any {
	return []map[string]any{{
		"type": "Applied", "status": "True", "reason": "AppliedManifestWorkComplete", "message": fmt.Sprintf("turn %d", turn),
		"observedGeneration": work.Metadata.Generation, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	}}
}

// workStatus is what a work agent sends when a work's state has changed; `turn` makes it differ from the last one.
func workStatus(cluster string, work *object, turn int) *pbv1.PublishRequest {
	body, _ := json.Marshal(map[string]any{"conditions": appliedConditions(work, turn)})
	metadata, _ := json.Marshal(map[string]any{
		"name": work.Metadata.Name, "namespace": cluster, "uid": work.Metadata.UID, "generation": work.Metadata.Generation,
		"finalizers": []string{"cluster.open-cluster-management.io/manifest-work-cleanup"},
	})
	return event(cluster, works+".status.update_request", body, map[string]*pbv1.CloudEventAttributeValue{
		"originalsource": text("kube"), "resourceid": text(work.Metadata.UID), "resourceversion": integer(int32(work.Metadata.Generation)),
		"sequenceid": text(sequence()), "statushash": text(fmt.Sprintf("%064x", turn)), "metadata": text(string(metadata)),
		"logtracing": text("{}"),
	})
}
