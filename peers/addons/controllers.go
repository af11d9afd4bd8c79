package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/addonconfig"
	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/agentdeploy"
	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/cmaconfig"
	"open-cluster-management.io/addon-framework/pkg/addonmanager/controllers/registration"
	"open-cluster-management.io/addon-framework/pkg/agent"
	"open-cluster-management.io/addon-framework/pkg/index"
	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	addonfake "open-cluster-management.io/api/client/addon/clientset/versioned/fake"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"
	clusterfake "open-cluster-management.io/api/client/cluster/clientset/versioned/fake"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	workfake "open-cluster-management.io/api/client/work/clientset/versioned/fake"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/ocm/pkg/addon/controllers/addonconfiguration"
	"open-cluster-management.io/ocm/pkg/addon/controllers/addonmanagement"
	"open-cluster-management.io/ocm/pkg/addon/controllers/addonowner"
	"open-cluster-management.io/ocm/pkg/addon/controllers/addonprogressing"
	"open-cluster-management.io/ocm/pkg/addon/controllers/cmainstallprogression"
	addonindex "open-cluster-management.io/ocm/pkg/addon/index"
)

// played is the addon of all worlds: a ConfigMap on each cluster, without registration.
type played struct{}

const addonName = "played"

func (played) Manifests(*clusterv1.ManagedCluster, *addonv1alpha1.ManagedClusterAddOn) ([]runtime.Object, error) {
	return []runtime.Object{&corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: addonName, Namespace: "default"},
	}}, nil
}

func (played) GetAgentAddonOptions() agent.AgentAddonOptions {
	return agent.AgentAddonOptions{
		AddonName:           addonName,
		SupportedConfigGVRs: []schema.GroupVersionResource{settings, maps},
		HealthProber:        &agent.HealthProber{Type: agent.HealthProberTypeNone},
	}
}

// newWorld wires the controllers as upstream's programs do: the addon manager's own, and those of the framework for one addon.
func newWorld(ctx context.Context) (*world, error) {
	addonClient, workClient := addonfake.NewSimpleClientset(), workfake.NewSimpleClientset()
	addons := addoninformers.NewSharedInformerFactory(addonClient, 0).Addon().V1alpha1()
	clusters := clusterinformers.NewSharedInformerFactory(clusterfake.NewSimpleClientset(), 0).Cluster()
	work := workinformers.NewSharedInformerFactory(workClient, 0).Work().V1().ManifestWorks()
	configs := dynamicinformer.NewDynamicSharedInformerFactory(dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()), 0)
	err := join(
		work.Informer().AddIndexers(cache.Indexers{
			index.ManifestWorkByAddon:           index.IndexManifestWorkByAddon,
			index.ManifestWorkByHostedAddon:     index.IndexManifestWorkByHostedAddon,
			index.ManifestWorkHookByHostedAddon: index.IndexManifestWorkHookByHostedAddon,
		}),
		addons.ManagedClusterAddOns().Informer().AddIndexers(cache.Indexers{
			addonindex.ManagedClusterAddonByName: addonindex.IndexManagedClusterAddonByName,
			index.ManagedClusterAddonByNamespace: index.IndexManagedClusterAddonByNamespace,
			index.AddonByConfig:                  index.IndexAddonByConfig,
		}),
		addons.ClusterManagementAddOns().Informer().AddIndexers(cache.Indexers{
			addonindex.ClusterManagementAddonByPlacement: addonindex.IndexClusterManagementAddonByPlacement,
			index.ClusterManagementAddonByConfig:         index.IndexClusterManagementAddonByConfig,
		}),
	)
	if err != nil {
		return nil, err
	}
	enabledOnes, offered := addons.ManagedClusterAddOns(), addons.ClusterManagementAddOns()
	placements, decisions := clusters.V1beta1().Placements(), clusters.V1beta1().PlacementDecisions()
	kinds := map[schema.GroupVersionResource]bool{settings: true, maps: true}
	agents := map[string]agent.AgentAddon{addonName: played{}}
	served, managed := utils.FilterByAddonName(agents), utils.ManagedByAddonManager
	return &world{
		addons: addonClient.Tracker(), works: workClient.Tracker(), clock: fakeClock(), times: map[string]metav1.Condition{},
		controllers: []named{
			{"install-progression", cmainstallprogression.NewCMAInstallProgressionController(addonClient, enabledOnes, offered, managed), false},
			{"cma-config", cmaconfig.NewCMAConfigController(addonClient, offered, configs, kinds, served), false},
			{"management", addonmanagement.NewAddonManagementController(
				addonClient, enabledOnes, offered, placements, decisions, managed), false},
			{"owner", addonowner.NewAddonOwnerController(addonClient, enabledOnes, offered, managed), true},
			{"configuration", addonconfiguration.NewAddonConfigurationController(
				addonClient, enabledOnes, offered, placements, decisions, managed), false},
			{"addon-config", addonconfig.NewAddonConfigController(addonClient, enabledOnes, offered, configs, kinds, served), true},
			{"registration", registration.NewAddonRegistrationController(
				addonClient, clusters.V1().ManagedClusters(), enabledOnes, agents, utils.AllowAllAddOns), true},
			{"deploy", agentdeploy.NewAddonDeployController(
				workClient, addonClient, clusters.V1().ManagedClusters(), enabledOnes, work, agents, utils.AllowAllAddOns), true},
			{"progressing", addonprogressing.NewAddonProgressingController(addonClient, enabledOnes, offered, work, managed), true},
		},
		stores: map[string]cache.Store{
			"ClusterManagementAddOn": offered.Informer().GetStore(),
			"ManagedClusterAddOn":    enabledOnes.Informer().GetStore(),
			"ManifestWork":           work.Informer().GetStore(),
			"ManagedCluster":         clusters.V1().ManagedClusters().Informer().GetStore(),
			"Placement":              placements.Informer().GetStore(),
			"PlacementDecision":      decisions.Informer().GetStore(),
			"AddOnDeploymentConfig":  configs.ForResource(settings).Informer().GetStore(),
			"ConfigMap":              configs.ForResource(maps).Informer().GetStore(),
		},
	}, nil
}
