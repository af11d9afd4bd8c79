package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubetypes "k8s.io/apimachinery/pkg/types"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonclientset "open-cluster-management.io/api/client/addon/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/addon"
	addonbeta "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/addon/v1beta1"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/cluster"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/csr"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/event"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/lease"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/options"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/serviceaccount"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/store"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work"
	workcodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/agent/codec"
	workstore "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/store"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/generic"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc"
)

// agent has the clients of a klusterlet's two agents.
type agent struct {
	name     string
	clusters *cluster.ClientHolder
	requests *csr.ClientHolder
	leases   *lease.LeaseClient
	addons   addonclientset.Interface
	events   *event.EventV1ClientWrapper
	works    *work.ClientHolder
	tokens   *serviceaccount.ServiceAccountClient
	caches   map[string]func(context.Context) (any, error)
}

// cached gives a store's options to a client, and has what it sees told.
func cached[T generic.ResourceObject](a *agent, config any, codec generic.Codec[T], client string, kept store.ClientWatcherStore[T]) *options.GenericClientOptions[T] {
	dataType := codec.EventDataType().String()
	a.caches[dataType] = func(ctx context.Context) (any, error) { return kept.List(ctx, metav1.NamespaceAll, metav1.ListOptions{}) }
	return options.NewGenericClientOptions(config, codec, client).WithClusterName(a.name).WithClientWatcherStore(kept)
}

func watched[T generic.ResourceObject](dataType string) *store.AgentInformerWatcherStore[T] {
	made := store.NewAgentInformerWatcherStore[T]()
	go tell(dataType, made.Watcher)
	return made
}

func newAgent(ctx context.Context, config any, name, client string, bootstrap bool) (*agent, error) {
	a := &agent{name: name, caches: map[string]func(context.Context) (any, error){}}
	var err error
	clusters := cluster.NewManagedClusterCodec()
	a.clusters, err = cluster.NewClientHolder(ctx, cached(
		a, config, clusters, name, watched[*clusterv1.ManagedCluster](clusters.EventDataType().String())))
	if err != nil {
		return nil, err
	}
	requests := csr.NewCSRCodec()
	a.requests, err = csr.NewAgentClientHolder(ctx, cached(
		a, config, requests, name, watched[*certificatesv1.CertificateSigningRequest](requests.EventDataType().String())))
	if err != nil || bootstrap {
		return a, err
	}
	a.leases, err = lease.NewLeaseClient(ctx, cached(
		a, config, lease.NewLeaseCodec(), name, store.NewSimpleStore[*coordinationv1.Lease]()), name)
	if err != nil {
		return nil, err
	}
	addons := addonbeta.NewManagedClusterAddOnCodec()
	a.addons, err = addon.ManagedClusterAddOnInterface(ctx, cached(
		a, config, addons, name, watched[*addonv1beta1.ManagedClusterAddOn](addons.EventDataType().String())))
	if err != nil {
		return nil, err
	}
	a.events, err = event.NewClientHolder(ctx, options.NewGenericClientOptions(config, event.NewEventCodec(), name).
		WithClusterName(name).WithSubscription(false).WithResyncEnabled(false))
	if err != nil {
		return nil, err
	}
	works := workcodec.NewManifestBundleCodec()
	kept := workstore.NewAgentInformerWatcherStore()
	go tell(works.EventDataType().String(), kept.Watcher)
	a.works, err = work.NewAgentClientHolder(ctx, cached[*workv1.ManifestWork](a, config, works, client, kept))
	if err != nil {
		return nil, err
	}
	a.tokens = serviceaccount.NewServiceAccountClient(name, config.(*grpc.GRPCOptions))
	return a, nil
}

func (a *agent) do(ctx context.Context, asked *command) (any, error) {
	switch asked.Op {
	case "create":
		return a.create(ctx, asked)
	case "patch":
		return a.patch(ctx, asked)
	case "renew":
		return a.renew(ctx, asked.Name)
	case "token":
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &asked.Seconds}}
		return a.tokens.CreateToken(ctx, asked.Name, request, metav1.CreateOptions{})
	case "list":
		if list := a.caches[asked.DataType]; list != nil {
			return list(ctx)
		}
		return nil, fmt.Errorf("no cache of %q", asked.DataType)
	}
	return nil, fmt.Errorf("no operation %q", asked.Op)
}

func (a *agent) create(ctx context.Context, asked *command) (any, error) {
	switch asked.DataType {
	case cluster.ManagedClusterEventDataType.String():
		object := &clusterv1.ManagedCluster{}
		if err := json.Unmarshal(asked.Object, object); err != nil {
			return nil, err
		}
		return a.clusters.ManagedClusters().Create(ctx, object, metav1.CreateOptions{})
	case csr.CSREventDataType.String():
		object := &certificatesv1.CertificateSigningRequest{}
		if err := json.Unmarshal(asked.Object, object); err != nil {
			return nil, err
		}
		return a.requests.Clients().Create(ctx, object, metav1.CreateOptions{})
	case event.EventEventDataType.String():
		object := &eventsv1.Event{}
		if err := json.Unmarshal(asked.Object, object); err != nil {
			return nil, err
		}
		return a.events.Events(a.name).Create(ctx, object, metav1.CreateOptions{})
	}
	return nil, fmt.Errorf("agents create no %q", asked.DataType)
}

func (a *agent) patch(ctx context.Context, asked *command) (any, error) {
	var under []string
	if asked.Subresource != "" {
		under = []string{asked.Subresource}
	}
	merge, none := kubetypes.MergePatchType, metav1.PatchOptions{}
	switch asked.DataType {
	case cluster.ManagedClusterEventDataType.String():
		return a.clusters.ManagedClusters().Patch(ctx, asked.Name, merge, asked.Patch, none, under...)
	case addonbeta.ManagedClusterAddOnEventDataType.String():
		return a.addons.AddonV1beta1().ManagedClusterAddOns(a.name).Patch(ctx, asked.Name, merge, asked.Patch, none, under...)
	case workcodec.NewManifestBundleCodec().EventDataType().String():
		return a.works.ManifestWorks(a.name).Patch(ctx, asked.Name, merge, asked.Patch, none, under...)
	}
	return nil, fmt.Errorf("agents patch no %q", asked.DataType)
}

func (a *agent) renew(ctx context.Context, name string) (any, error) {
	found, err := a.leases.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	renewed := found.DeepCopy()
	renewed.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	return a.leases.Update(ctx, renewed, metav1.UpdateOptions{})
}
