package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"sync"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	addonalpha "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/addon/v1alpha1"
	addonbeta "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/addon/v1beta1"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/cluster"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/csr"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/event"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/lease"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/serviceaccount"
	workcodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/source/codec"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/generic"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/generic/types"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/server"
)

const (
	source     = "kube"
	works      = "io.open-cluster-management.works.v1alpha1.manifestbundles"
	clusters   = "cluster.open-cluster-management.io.v1.managedclusters"
	requests   = "certificates.k8s.io.v1.certificatesigningrequests"
	leases     = "coordination.k8s.io.v1.leases"
	addons     = "addon.open-cluster-management.io.v1alpha1.managedclusteraddons"
	addonsBeta = "addon.open-cluster-management.io.v1beta1.managedclusteraddons"
	events     = "events.k8s.io.v1.events"
	tokensType = "authentication.k8s.io.v1.tokenrequests"
)

// fedTypes are fed in turn where a connection has several streams.
var fedTypes = []string{works, clusters, requests, leases, addons}

// codecs read an object of each data type from JSON, for sdk-go's own codec to encode.
var codecs = map[string]codec{
	works:      with(workcodec.NewManifestBundleCodec(), func() *workv1.ManifestWork { return &workv1.ManifestWork{} }),
	clusters:   with(cluster.NewManagedClusterCodec(), func() *clusterv1.ManagedCluster { return &clusterv1.ManagedCluster{} }),
	requests:   with(csr.NewCSRCodec(), func() *certificatesv1.CertificateSigningRequest { return &certificatesv1.CertificateSigningRequest{} }),
	leases:     with(lease.NewLeaseCodec(), func() *coordinationv1.Lease { return &coordinationv1.Lease{} }),
	addons:     with(addonalpha.NewManagedClusterAddOnCodec(), func() *addonv1alpha1.ManagedClusterAddOn { return &addonv1alpha1.ManagedClusterAddOn{} }),
	addonsBeta: with(addonbeta.NewManagedClusterAddOnCodec(), func() *addonv1beta1.ManagedClusterAddOn { return &addonv1beta1.ManagedClusterAddOn{} }),
	events:     with(event.NewEventCodec(), func() *eventsv1.Event { return &eventsv1.Event{} }),
	tokensType: with(serviceaccount.NewTokenRequestCodec(), func() *authenticationv1.TokenRequest { return &authenticationv1.TokenRequest{} }),
}

type codec func(body []byte) (*kept, error)

// kept is an object that the service has.
type kept struct {
	object metav1.Object
	encode func(types.EventAction) (*cloudevents.Event, error)
}

type resource interface {
	generic.ResourceObject
	metav1.Object
}

func with[T resource](c generic.Codec[T], fresh func() T) codec {
	return func(body []byte) (*kept, error) {
		object := fresh()
		if err := json.Unmarshal(body, object); err != nil {
			return nil, err
		}
		encode := func(action types.EventAction) (*cloudevents.Event, error) {
			eventType := types.CloudEventsType{CloudEventsDataType: c.EventDataType(), SubResource: types.SubResourceSpec, Action: action}
			return c.Encode(source, eventType, object)
		}
		return &kept{object, encode}, nil
	}
}

// service keeps the objects of one data type, and tells a handler of changes.
type service struct {
	codec   codec
	handler server.EventHandler
	lock    sync.Mutex
	objects map[string]*kept
	failure *metav1.Status
}

func newService(codec codec) *service {
	return &service{codec: codec, objects: map[string]*kept{}}
}

func (s *service) RegisterHandler(_ context.Context, handler server.EventHandler) { s.handler = handler }

func (s *service) List(_ context.Context, options types.ListOptions) ([]*cloudevents.Event, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	found := []*cloudevents.Event{}
	names := make([]string, 0, len(s.objects))
	for id := range s.objects {
		names = append(names, id)
	}
	sort.Strings(names)
	for _, id := range names {
		event, err := s.objects[id].encode("")
		if err != nil {
			return nil, err
		}
		if event.Extensions()[types.ExtensionClusterName] == options.ClusterName {
			found = append(found, event)
		}
	}
	return found, nil
}

// HandleStatusUpdate tells whoever drives the program what was published; what becomes of it is theirs to say.
func (s *service) HandleStatusUpdate(_ context.Context, published *cloudevents.Event) error {
	s.lock.Lock()
	failure := s.failure
	s.failure = nil
	s.lock.Unlock()
	told := map[string]any{
		"type": published.Type(), "source": published.Source(), "extensions": published.Extensions(),
	}
	if len(published.Data()) > 0 {
		told["data"] = json.RawMessage(published.Data())
	}
	say(map[string]any{"published": told})
	if failure != nil {
		return &apierrors.StatusError{ErrStatus: *failure}
	}
	return nil
}

func (s *service) fail(status *metav1.Status) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.failure = status
}

func (s *service) apply(ctx context.Context, body []byte) (any, error) {
	object, err := s.codec(body)
	if err != nil {
		return nil, err
	}
	id := string(object.object.GetUID())
	if id == "" {
		return nil, fmt.Errorf("metadata.uid is missing")
	}
	s.lock.Lock()
	_, exists := s.objects[id]
	s.objects[id] = object
	s.lock.Unlock()
	action := types.CreateRequestAction
	if exists {
		action = types.UpdateRequestAction
	}
	return s.tell(ctx, object, action)
}

// keep has an object without telling anybody.
func (s *service) keep(body []byte) error {
	object, err := s.codec(body)
	if err != nil {
		return err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.objects[string(object.object.GetUID())] = object
	return nil
}

func (s *service) remove(ctx context.Context, id string, silent bool) (any, error) {
	s.lock.Lock()
	object := s.objects[id]
	delete(s.objects, id)
	s.lock.Unlock()
	if object == nil {
		return nil, fmt.Errorf("no object %q", id)
	}
	if silent {
		return "silently", nil
	}
	if object.object.GetDeletionTimestamp().IsZero() {
		object.object.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	}
	return s.tell(ctx, object, types.DeleteRequestAction)
}

func (s *service) tell(ctx context.Context, object *kept, action types.EventAction) (any, error) {
	event, err := object.encode(action)
	if err != nil {
		return nil, err
	}
	return string(action), s.handler.HandleEvent(ctx, event)
}

// object makes one of a data type, with `size` bytes of content.
func object(dataType, cluster string, number, size int) []byte {
	filler := make([]byte, size)
	for at := range filler {
		filler[at] = 'x'
	}
	uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", number)
	metadata := map[string]any{
		"name": fmt.Sprintf("load-%d", number), "namespace": cluster, "uid": uid, "resourceVersion": "7", "generation": 1,
		"labels": map[string]string{"open-cluster-management.io/cluster-name": cluster},
	}
	made := map[string]any{"metadata": metadata}
	switch dataType {
	case works:
		manifest := map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": "load", "namespace": "default"},
			"data": map[string]string{"filler": string(filler)},
		}
		made["spec"] = map[string]any{"workload": map[string]any{"manifests": []any{manifest}}}
	case clusters:
		metadata["name"] = cluster
		delete(metadata, "namespace")
		metadata["annotations"] = map[string]string{"filler": string(filler)}
	default:
		metadata["annotations"] = map[string]string{"filler": string(filler)}
	}
	body, _ := json.Marshal(made)
	return body
}
