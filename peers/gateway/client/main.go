// Gateway-client goes through a cluster gateway with upstream's client library, and prints what it got as one JSON document.
//
//	gateway-client --kubeconfig FILE --cluster NAME --namespace NAME
//
// The hub's kubeconfig is all it has; the library puts the gateway's path before every request. Each of the library's ways is
// gone once: the round tripper that finds the cluster in the context, the one that is made for a cluster, and the generated
// client's REST client and round tripper.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	multicluster "github.com/oam-dev/cluster-gateway/pkg/apis/cluster/transport"
	"github.com/oam-dev/cluster-gateway/pkg/generated/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Found is what each way gave.
type Found struct {
	Hub      string   `json:"hub"`
	Context  string   `json:"context"`
	Prepend  string   `json:"prepend"`
	REST     string   `json:"rest"`
	Tripper  int      `json:"tripper"`
	Applied  string   `json:"applied"`
	Events   []string `json:"events"`
	Names    []string `json:"names"`
	NotFound bool     `json:"notFound"`
}

func main() {
	// The library has put a flag of its own into the usual set.
	flags := flag.NewFlagSet("gateway-client", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "of the hub")
	cluster := flags.String("cluster", "", "whose API is asked")
	namespace := flags.String("namespace", "default", "where ConfigMaps are written")
	_ = flags.Parse(os.Args[1:])
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	found, err := goThrough(ctx, *kubeconfig, *cluster, *namespace)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gateway-client:", err)
		os.Exit(1)
	}
}

func goThrough(ctx context.Context, kubeconfig, cluster, namespace string) (*Found, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	found := &Found{}
	byContext := rest.CopyConfig(config)
	byContext.Wrap(multicluster.NewClusterGatewayRoundTripper)
	client, err := kubernetes.NewForConfig(byContext)
	if err != nil {
		return nil, err
	}
	if found.Hub, err = uid(ctx, client); err != nil {
		return nil, fmt.Errorf("without a cluster: %w", err)
	}
	inside := multicluster.WithMultiClusterContext(ctx, cluster)
	if found.Context, err = uid(inside, client); err != nil {
		return nil, fmt.Errorf("by context: %w", err)
	}
	if err := write(inside, client, namespace, found); err != nil {
		return nil, err
	}

	prepending := rest.CopyConfig(config)
	prepending.Wrap(multicluster.NewProxyPathPrependingClusterGatewayRoundTripper(cluster).NewRoundTripper)
	other, err := kubernetes.NewForConfig(prepending)
	if err != nil {
		return nil, err
	}
	if found.Prepend, err = uid(ctx, other); err != nil {
		return nil, fmt.Errorf("by a prefix: %w", err)
	}
	return found, generated(ctx, config, cluster, found)
}

func uid(ctx context.Context, client kubernetes.Interface) (string, error) {
	system, err := client.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return string(system.UID), nil
}

// write applies, watches, lists and deletes, as controllers do.
func write(ctx context.Context, client kubernetes.Interface, namespace string, found *Found) error {
	maps := client.CoreV1().ConfigMaps(namespace)
	before, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "made-by=gateway-client"})
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	options := metav1.ListOptions{LabelSelector: "made-by=gateway-client", ResourceVersion: before.ResourceVersion}
	watching, err := maps.Watch(ctx, options)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer watching.Stop()
	const name = "through-the-gateway"
	body := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name +
		`","labels":{"made-by":"gateway-client"}},"data":{"said":"hello"}}`)
	force := true
	applied, err := maps.Patch(ctx, name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "gateway-client", Force: &force})
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	found.Applied = applied.Data["said"]
	listed, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "made-by=gateway-client"})
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	for _, one := range listed.Items {
		found.Names = append(found.Names, one.Name)
	}
	if err := maps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	for len(found.Events) < 2 {
		event, open := <-watching.ResultChan()
		if !open {
			return fmt.Errorf("the watch ended after %v", found.Events)
		}
		if one, is := event.Object.(*corev1.ConfigMap); is {
			found.Events = append(found.Events, string(event.Type)+" "+one.Name)
		}
	}
	_, err = maps.Get(ctx, name, metav1.GetOptions{})
	found.NotFound = err != nil
	return nil
}

func generated(ctx context.Context, config *rest.Config, cluster string, found *Found) error {
	clients, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	gateways := clients.ClusterV1alpha1().ClusterGateways()
	var system corev1.Namespace
	raw, err := gateways.RESTClient(cluster).Get().AbsPath("/api/v1/namespaces/kube-system").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("by the generated client: %w", err)
	}
	if err := json.Unmarshal(raw, &system); err != nil {
		return err
	}
	found.REST = string(system.UID)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/version", nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: gateways.RoundTripperForCluster(cluster)}).Do(request)
	if err != nil {
		return fmt.Errorf("by the generated round tripper: %w", err)
	}
	defer answer.Body.Close()
	found.Tripper = answer.StatusCode
	return nil
}
