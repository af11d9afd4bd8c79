package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// change is one line of output. Step is the annotation that the writer counts up, so that a reader can tell which
// write it sees without parsing the object.
type change struct {
	Event           string `json:"event"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name,omitempty"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Step            string `json:"step,omitempty"`
}

func describe(event string, object any) change {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object, event = tombstone.Obj, "delete-unseen"
	}
	m, err := meta.Accessor(object)
	if err != nil {
		fail(err)
	}
	return change{event, m.GetNamespace(), m.GetName(), string(m.GetUID()), m.GetResourceVersion(), m.GetAnnotations()["step"]}
}

// printing reports changes. A relist calls OnUpdate with the very same version: that is no change and is reported as
// "again", so a test can tell a resumed watch from a repeated list.
func printing() cache.ResourceEventHandlerDetailedFuncs {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initial bool) {
			if initial {
				say(describe("initial", object))
			} else {
				say(describe("add", object))
			}
		},
		UpdateFunc: func(before, after any) {
			event := "update"
			if describe("", before).ResourceVersion == describe("", after).ResourceVersion {
				event = "again"
			}
			say(describe(event, after))
		},
		DeleteFunc: func(object any) { say(describe("delete", object)) },
	}
}

func newInformer(config *rest.Config, namespace, kind string) (cache.SharedIndexInformer, error) {
	switch kind {
	case "typed":
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace)).Core().V1().ConfigMaps().Informer(), nil
	case "dynamic":
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil).ForResource(configMaps).Informer(), nil
	case "metadata":
		client, err := metadata.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return metadatainformer.NewFilteredSharedInformerFactory(client, 0, namespace, func(*metav1.ListOptions) {}).ForResource(configMaps).Informer(), nil
	}
	return nil, fmt.Errorf("unknown kind of client %q", kind)
}

func watchConfigMaps(config *rest.Config, namespace, kind string) error {
	informer, err := newInformer(config, namespace, kind)
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(printing()); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			say(change{Event: "synced", ResourceVersion: informer.LastSyncResourceVersion()})
		}
	}()
	informer.RunWithContext(ctx)
	return nil
}
