package main

import (
	"context"
	"errors"
	"sort"

	"github.com/stolostron/kubernetes-dependency-watches/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	discoveryfake "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
)

type kind struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource"`
	Namespaced bool   `json:"namespaced"`
}

// world stands in for the watcher that the policy controller gives its resolver: upstream's cache, and behind it a list of objects
// where there would be an API server. What is read is cached as after a watch has started, so resolving again measures a warm cache.
type world struct {
	client.DynamicWatcher
	objects []unstructured.Unstructured
	scoped  map[schema.GroupVersionKind]bool
	cache   client.ObjectCache
}

func newWorld(kinds []kind, objects []unstructured.Unstructured) *world {
	byVersion := map[string]*metav1.APIResourceList{}
	resources := []*metav1.APIResourceList{}
	scoped := map[schema.GroupVersionKind]bool{}
	for _, one := range kinds {
		list, known := byVersion[one.APIVersion]
		if !known {
			list = &metav1.APIResourceList{GroupVersion: one.APIVersion}
			byVersion[one.APIVersion] = list
			resources = append(resources, list)
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: one.Resource, Kind: one.Kind, Namespaced: one.Namespaced, Verbs: metav1.Verbs{"get", "list", "watch"},
		})
		scoped[schema.FromAPIVersionAndKind(one.APIVersion, one.Kind)] = one.Namespaced
	}
	discovery := &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{Resources: resources}}
	sorted := append([]unstructured.Unstructured{}, objects...)
	sort.SliceStable(sorted, func(a, b int) bool {
		if sorted[a].GetNamespace() != sorted[b].GetNamespace() {
			return sorted[a].GetNamespace() < sorted[b].GetNamespace()
		}
		return sorted[a].GetName() < sorted[b].GetName()
	})
	return &world{objects: sorted, scoped: scoped, cache: client.NewObjectCache(discovery, client.ObjectCacheOptions{})}
}

func (w *world) read(
	wanted client.ObjectIdentifier, gvk schema.GroupVersionKind, selector labels.Selector,
) ([]unstructured.Unstructured, error) {
	found, err := w.cache.FromObjectIdentifier(wanted)
	if err == nil || !errors.Is(err, client.ErrNoCacheEntry) {
		return found, err
	}
	selected := []unstructured.Unstructured{}
	for _, object := range w.objects {
		if object.GroupVersionKind() == gvk &&
			(wanted.Namespace == "" || !w.scoped[gvk] || object.GetNamespace() == wanted.Namespace) &&
			(wanted.Name == "" || object.GetName() == wanted.Name) &&
			(selector == nil || selector.Matches(labels.Set(object.GetLabels()))) {
			selected = append(selected, object)
		}
	}
	w.cache.CacheFromObjectIdentifier(wanted, selected)
	return w.cache.FromObjectIdentifier(wanted)
}

func (w *world) Get(
	_ client.ObjectIdentifier, gvk schema.GroupVersionKind, namespace string, name string,
) (*unstructured.Unstructured, error) {
	wanted := client.ObjectIdentifier{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: namespace, Name: name}
	found, err := w.read(wanted, gvk, nil)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

func (w *world) List(
	_ client.ObjectIdentifier, gvk schema.GroupVersionKind, namespace string, selector labels.Selector,
) ([]unstructured.Unstructured, error) {
	wanted := client.ObjectIdentifier{
		Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: namespace, Selector: selector.String(),
	}
	return w.read(wanted, gvk, selector)
}

func (w *world) GVKToGVR(gvk schema.GroupVersionKind) (client.ScopedGVR, error) {
	return w.cache.GVKToGVR(gvk)
}
func (w *world) StartQueryBatch(client.ObjectIdentifier) error { return nil }
func (w *world) EndQueryBatch(client.ObjectIdentifier) error   { return nil }
func (w *world) Start(context.Context) error                   { return nil }
