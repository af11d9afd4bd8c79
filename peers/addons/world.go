package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"
	rollout "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1alpha1"
	"open-cluster-management.io/sdk-go/pkg/basecontroller/factory"
)

type answer struct {
	// Unsettled is set where the controllers still write after many rounds.
	Unsettled bool                                             `json:"unsettled,omitempty"`
	Errors    map[string]string                                `json:"errors,omitempty"`
	Offers    map[string]*addonv1alpha1.ClusterManagementAddOn `json:"offers"`
	Addons    map[string]*addonv1alpha1.ManagedClusterAddOn    `json:"addons"`
	Works     map[string]*workv1.ManifestWork                  `json:"works"`
}

// named is a controller and the keys that it is called with.
type named struct {
	name       string
	controller factory.Controller
	perCluster bool
}

type world struct {
	addons, works clienttesting.ObjectTracker
	stores        map[string]cache.Store
	clock         *clocktesting.FakeClock
	controllers   []named
	agents        map[string]string
	// times are those of the conditions' last transitions, by object and type.
	times map[string]metav1.Condition
}

var (
	offers   = addonv1alpha1.SchemeGroupVersion.WithResource("clustermanagementaddons")
	enabled  = addonv1alpha1.SchemeGroupVersion.WithResource("managedclusteraddons")
	works    = workv1.SchemeGroupVersion.WithResource("manifestworks")
	settings = addonv1alpha1.SchemeGroupVersion.WithResource("addondeploymentconfigs")
	maps     = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

func (w *world) close() {
	for _, one := range w.controllers {
		one.controller.SyncContext().Queue().ShutDown()
	}
}

func (w *world) set(raw []byte) error {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(raw, &kind); err != nil {
		return err
	}
	switch kind.Kind {
	case "ClusterManagementAddOn":
		offer := &addonv1alpha1.ClusterManagementAddOn{}
		if err := json.Unmarshal(raw, offer); err != nil {
			return err
		}
		offer.UID = types.UID(offer.Name)
		if present, exists, _ := w.stores[kind.Kind].GetByKey(offer.Name); exists {
			offer.Status = present.(*addonv1alpha1.ClusterManagementAddOn).Status
		}
		return w.put(w.addons, offers, offer)
	case "ManagedClusterAddOn":
		addon := &addonv1alpha1.ManagedClusterAddOn{}
		if err := json.Unmarshal(raw, addon); err != nil {
			return err
		}
		if present, exists, _ := w.stores[kind.Kind].GetByKey(addon.Namespace + "/" + addon.Name); exists {
			there := present.(*addonv1alpha1.ManagedClusterAddOn).DeepCopy()
			there.Spec, addon = addon.Spec, there
		}
		return w.put(w.addons, enabled, addon)
	case "AddOnDeploymentConfig", "ConfigMap":
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(raw); err != nil {
			return err
		}
		return w.stores[kind.Kind].Update(object)
	}
	objects := map[string]runtime.Object{
		"ManagedCluster":    &clusterv1.ManagedCluster{},
		"Placement":         &clusterv1beta1.Placement{},
		"PlacementDecision": &clusterv1beta1.PlacementDecision{},
	}
	object, known := objects[kind.Kind]
	if !known {
		return fmt.Errorf("kind %q is none that a world has", kind.Kind)
	}
	if err := json.Unmarshal(raw, object); err != nil {
		return err
	}
	return w.stores[kind.Kind].Update(object)
}

func (w *world) put(tracker clienttesting.ObjectTracker, resource schema.GroupVersionResource, object runtime.Object) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	if _, err := tracker.Get(resource, accessor.GetNamespace(), accessor.GetName()); err == nil {
		err = tracker.Update(resource, object, accessor.GetNamespace())
		return join(err, w.refresh())
	}
	return join(tracker.Create(resource, object, accessor.GetNamespace()), w.refresh())
}

func join(problems ...error) error {
	for _, one := range problems {
		if one != nil {
			return one
		}
	}
	return nil
}

func (w *world) remove(gone reference) error {
	switch gone.Kind {
	case "ClusterManagementAddOn":
		return join(w.addons.Delete(offers, gone.Namespace, gone.Name), w.refresh())
	case "ManagedClusterAddOn":
		return join(w.addons.Delete(enabled, gone.Namespace, gone.Name), w.refresh())
	}
	key := gone.Name
	if gone.Namespace != "" {
		key = gone.Namespace + "/" + gone.Name
	}
	object, exists, err := w.stores[gone.Kind].GetByKey(key)
	if err != nil || !exists {
		return fmt.Errorf("%s %s cannot be deleted: %v", gone.Kind, key, err)
	}
	return w.stores[gone.Kind].Delete(object)
}

func list[T any](tracker clienttesting.ObjectTracker, resource schema.GroupVersionResource, kind string) ([]T, error) {
	found, err := tracker.List(resource, resource.GroupVersion().WithKind(kind), "")
	if err != nil {
		return nil, err
	}
	var items []T
	err = meta.EachListItem(found, func(object runtime.Object) error {
		items = append(items, object.DeepCopyObject().(T))
		return nil
	})
	return items, err
}

// refresh brings what has been written into the caches, with the moments of the step in conditions, and takes works with their addons.
func (w *world) refresh() error {
	agreed, err := list[*addonv1alpha1.ClusterManagementAddOn](w.addons, offers, "ClusterManagementAddOn")
	if err != nil {
		return err
	}
	there, err := list[*addonv1alpha1.ManagedClusterAddOn](w.addons, enabled, "ManagedClusterAddOn")
	if err != nil {
		return err
	}
	delivered, err := list[*workv1.ManifestWork](w.works, works, "ManifestWork")
	if err != nil {
		return err
	}
	var cached [3][]interface{}
	for _, one := range agreed {
		for i := range one.Status.InstallProgressions {
			progression := &one.Status.InstallProgressions[i]
			w.stamp(one.Name+"/"+progression.Namespace+"/"+progression.Name, progression.Conditions)
		}
		if err := w.addons.Update(offers, one, ""); err != nil {
			return err
		}
		cached[0] = append(cached[0], one)
	}
	present := map[string]bool{}
	for _, one := range there {
		w.stamp(one.Namespace+"/"+one.Name, one.Status.Conditions)
		if err := w.addons.Update(enabled, one, one.Namespace); err != nil {
			return err
		}
		present[one.Namespace+"/"+one.Name] = true
		cached[1] = append(cached[1], one)
	}
	for _, one := range delivered {
		if !present[one.Namespace+"/"+one.Labels[addonv1alpha1.AddonLabelKey]] {
			if err := w.works.Delete(works, one.Namespace, one.Name); err != nil {
				return err
			}
			continue
		}
		one.Status.Conditions = reported(w.agents[one.Namespace])
		if err := w.works.Update(works, one, one.Namespace); err != nil {
			return err
		}
		cached[2] = append(cached[2], one)
	}
	return join(
		w.stores["ClusterManagementAddOn"].Replace(cached[0], ""),
		w.stores["ManagedClusterAddOn"].Replace(cached[1], ""),
		w.stores["ManifestWork"].Replace(cached[2], ""),
	)
}

// stamp gives conditions the moment at which their status changed by this world's clock; the library that sets them looks at the real one.
func (w *world) stamp(object string, conditions []metav1.Condition) {
	for i := range conditions {
		key := object + "/" + conditions[i].Type
		if known, exists := w.times[key]; exists && known.Status == conditions[i].Status {
			conditions[i].LastTransitionTime = known.LastTransitionTime
		} else {
			conditions[i].LastTransitionTime = metav1.NewTime(w.clock.Now())
		}
		w.times[key] = conditions[i]
	}
}

// reported is what a work agent says of each work.
func reported(state string) []metav1.Condition {
	said := map[string]metav1.ConditionStatus{}
	switch state {
	case "failing":
		said[workv1.WorkApplied] = metav1.ConditionFalse
	case "applied":
		said[workv1.WorkApplied], said[workv1.WorkAvailable] = metav1.ConditionTrue, metav1.ConditionFalse
	case "ready":
		said[workv1.WorkApplied], said[workv1.WorkAvailable] = metav1.ConditionTrue, metav1.ConditionTrue
	}
	var conditions []metav1.Condition
	for _, kind := range []string{workv1.WorkApplied, workv1.WorkAvailable} {
		if status, exists := said[kind]; exists {
			conditions = append(conditions, metav1.Condition{Type: kind, Status: status, Reason: "Played"})
		}
	}
	return conditions
}

// settle calls the controllers until none of them changes anything.
func (w *world) settle(ctx context.Context) (answer, error) {
	rollout.RolloutClock = w.clock
	said := answer{Unsettled: true}
	before := ""
	for round := 0; round < rounds; round++ {
		said.Errors = map[string]string{}
		for _, one := range w.controllers {
			for _, key := range w.keys(one) {
				if problem := called(ctx, one.controller, key); problem != "" {
					said.Errors[one.name+" "+key] = problem
				}
				if err := w.refresh(); err != nil {
					return said, err
				}
			}
		}
		now, err := w.digest()
		if err != nil {
			return said, err
		}
		if now == before {
			said.Unsettled = false
			break
		}
		before = now
	}
	w.tell(&said)
	return said, nil
}

func (w *world) keys(one named) []string {
	kind := "ClusterManagementAddOn"
	if one.perCluster {
		kind = "ManagedClusterAddOn"
	}
	keys := w.stores[kind].ListKeys()
	sort.Strings(keys)
	return keys
}

func called(ctx context.Context, controller factory.Controller, key string) (problem string) {
	defer func() {
		if panicked := recover(); panicked != nil {
			problem = fmt.Sprint("panic: ", panicked)
		}
	}()
	if err := controller.Sync(ctx, controller.SyncContext(), key); err != nil {
		return err.Error()
	}
	return ""
}

// digest tells states apart; references of one kind come in any order.
func (w *world) digest() (string, error) {
	var said answer
	w.tell(&said)
	for _, one := range said.Offers {
		one = one.DeepCopy()
		for _, progression := range one.Status.InstallProgressions {
			references := progression.ConfigReferences
			sort.SliceStable(references, func(i, j int) bool { return fmt.Sprint(references[i]) < fmt.Sprint(references[j]) })
		}
		said.Offers[one.Name] = one
	}
	text, err := json.Marshal(said)
	return string(text), err
}

func (w *world) tell(said *answer) {
	said.Offers = map[string]*addonv1alpha1.ClusterManagementAddOn{}
	said.Addons = map[string]*addonv1alpha1.ManagedClusterAddOn{}
	said.Works = map[string]*workv1.ManifestWork{}
	for _, one := range w.stores["ClusterManagementAddOn"].List() {
		offer := one.(*addonv1alpha1.ClusterManagementAddOn)
		said.Offers[offer.Name] = offer
	}
	for _, one := range w.stores["ManagedClusterAddOn"].List() {
		addon := one.(*addonv1alpha1.ManagedClusterAddOn)
		said.Addons[addon.Namespace+"/"+addon.Name] = addon
	}
	for _, one := range w.stores["ManifestWork"].List() {
		work := one.(*workv1.ManifestWork)
		said.Works[work.Namespace+"/"+work.Name] = work
	}
}

func fakeClock() *clocktesting.FakeClock { return clocktesting.NewFakeClock(time.Unix(0, 0)) }
