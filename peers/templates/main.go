// Program templates-oracle renders AddOnTemplates with upstream's template agent, in this process and on fake clients. An
// installation is one line of JSON {"cluster": ManagedCluster, "addon": name, "template": AddOnTemplate, "config":
// AddOnDeploymentConfig or null}; the answer is one line {"manifests": […], "namespace": "…", "error": "…", "panic": "…"}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"

	"open-cluster-management.io/addon-framework/pkg/addonfactory"
	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	addonfake "open-cluster-management.io/api/client/addon/clientset/versioned/fake"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/ocm/pkg/addon/templateagent"
)

type installation struct {
	Cluster  clusterv1.ManagedCluster             `json:"cluster"`
	Addon    string                               `json:"addon"`
	Template addonv1alpha1.AddOnTemplate          `json:"template"`
	Config   *addonv1alpha1.AddOnDeploymentConfig `json:"config"`
}

type answer struct {
	Manifests []runtime.Object `json:"manifests"`
	Namespace string           `json:"namespace"`
	Error     string           `json:"error,omitempty"`
	Panic     string           `json:"panic,omitempty"`
}

func reference(group, resource, namespace, name string) addonv1alpha1.ConfigReference {
	referent := addonv1alpha1.ConfigReferent{Namespace: namespace, Name: name}
	return addonv1alpha1.ConfigReference{
		ConfigGroupResource: addonv1alpha1.ConfigGroupResource{Group: group, Resource: resource},
		ConfigReferent:      referent,
		DesiredConfig:       &addonv1alpha1.ConfigSpecHash{ConfigReferent: referent, SpecHash: "hash"},
	}
}

func render(line []byte) (result answer) {
	defer func() {
		if trouble := recover(); trouble != nil {
			result = answer{Panic: fmt.Sprint(trouble)}
		}
	}()
	var asked installation
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: err.Error()}
	}
	group := utils.AddOnTemplateGVR.Group
	addon := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Name: asked.Addon, Namespace: asked.Cluster.Name}}
	addon.Status.ConfigReferences = []addonv1alpha1.ConfigReference{reference(group, "addontemplates", "", asked.Template.Name)}
	objects := []runtime.Object{&asked.Template}
	if asked.Config != nil {
		objects = append(objects, asked.Config)
		addon.Status.ConfigReferences = append(addon.Status.ConfigReferences,
			reference(group, "addondeploymentconfigs", asked.Config.Namespace, asked.Config.Name))
	}
	client := addonfake.NewSimpleClientset(objects...)
	informers := addoninformers.NewSharedInformerFactory(client, 0)
	if err := informers.Addon().V1alpha1().AddOnTemplates().Informer().GetStore().Add(&asked.Template); err != nil {
		return answer{Error: err.Error()}
	}
	kube := kubefake.NewSimpleClientset()
	getter := utils.NewAddOnDeploymentConfigGetter(client)
	ctx := context.Background()
	agent := templateagent.NewCRDTemplateAgentAddon(ctx, asked.Addon, kube, client, informers,
		kubeinformers.NewSharedInformerFactory(kube, 0).Rbac().V1().RoleBindings().Lister(),
		func(cluster *clusterv1.ManagedCluster, addon *addonv1alpha1.ManagedClusterAddOn) (addonfactory.Values, error) {
			return templateagent.GetAddOnRegistriesPrivateValuesFromClusterAnnotation(klog.FromContext(ctx), cluster, addon)
		},
		addonfactory.GetAddOnDeploymentConfigValues(getter,
			addonfactory.ToAddOnCustomizedVariableValues,
			templateagent.ToAddOnNodePlacementPrivateValues,
			templateagent.ToAddOnRegistriesPrivateValues,
			templateagent.ToAddOnInstallNamespacePrivateValues,
			templateagent.ToAddOnProxyPrivateValues,
			templateagent.ToAddOnResourceRequirementsPrivateValues,
		))
	manifests, err := agent.Manifests(&asked.Cluster, addon)
	if err != nil {
		return answer{Error: err.Error()}
	}
	namespace, err := agent.TemplateAgentRegistrationNamespaceFunc(addon)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Manifests: manifests, Namespace: namespace}
}

func main() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := out.Encode(render(line)); err != nil {
				panic(err)
			}
		}
		if err != nil {
			return
		}
	}
}
