// Program placement-oracle plays worlds to upstream's scheduling controller, in this process and on fake clients, and says what
// it decided. A world is one line of JSON, a list of steps; the answer is one line, a list of answers.
//
//	step:   {"now": time, "set": [object…], "delete": [{"kind", "namespace", "name"}…], "sync": ["namespace/placement"…]}
//	answer: by placement: its conditions, decision groups, PlacementDecisions, and how the scheduler came to them
//
// A sync is one pass of the controller; what it writes is in its caches before the next.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	clusterfake "open-cluster-management.io/api/client/cluster/clientset/versioned/fake"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	"open-cluster-management.io/sdk-go/pkg/basecontroller/factory"

	"open-cluster-management.io/ocm/pkg/placement/controllers/framework"
	"open-cluster-management.io/ocm/pkg/placement/controllers/metrics"
	"open-cluster-management.io/ocm/pkg/placement/controllers/scheduling"
	"open-cluster-management.io/ocm/pkg/placement/plugins/addon"
	"open-cluster-management.io/ocm/pkg/placement/plugins/tainttoleration"
)

type reference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

type step struct {
	Now    time.Time         `json:"now"`
	Set    []json.RawMessage `json:"set"`
	Delete []reference       `json:"delete"`
	Sync   []string          `json:"sync"`
}

type answer struct {
	Panic      string                               `json:"panic,omitempty"`
	Selected   int32                                `json:"selected"`
	Conditions []metav1.Condition                   `json:"conditions"`
	Groups     []clusterv1beta1.DecisionGroupStatus `json:"groups"`
	Decisions  map[string][]string                  `json:"decisions"`
	Filters    []scheduling.FilterResult            `json:"filters"`
	Scores     []scheduling.PrioritizerResult       `json:"scores"`
	Totals     scheduling.PrioritizerScore          `json:"totals"`
	Warning    string                               `json:"warning,omitempty"`
}

// nobody is told of events.
type nobody struct{}

func (nobody) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...interface{}) {
}

// recorded keeps what the scheduler last said, which the controller does not write down.
type recorded struct {
	scheduling.Scheduler
	last   scheduling.ScheduleResult
	status *framework.Status
}

func (r *recorded) Schedule(
	ctx context.Context, placement *clusterv1beta1.Placement, clusters []*clusterv1.ManagedCluster,
) (scheduling.ScheduleResult, *framework.Status) {
	r.last, r.status = r.Scheduler.Schedule(ctx, placement, clusters)
	return r.last, r.status
}

type world struct {
	client     *clusterfake.Clientset
	stores     map[string]cache.Store
	clock      *clocktesting.FakeClock
	scheduler  *recorded
	controller factory.Controller
}

func newWorld(ctx context.Context) *world {
	client := clusterfake.NewSimpleClientset()
	informers := clusterinformers.NewSharedInformerFactory(client, 0).Cluster()
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	tainttoleration.TolerationClock, addon.AddOnClock = clock, clock
	metrics := metrics.NewScheduleMetrics(clock)
	scheduler := &recorded{Scheduler: scheduling.NewPluginScheduler(scheduling.NewSchedulerHandler(
		client,
		informers.V1beta1().PlacementDecisions().Lister(),
		informers.V1alpha1().AddOnPlacementScores().Lister(),
		informers.V1().ManagedClusters().Lister(),
		nobody{}, metrics,
	))}
	controller := scheduling.NewSchedulingController(
		ctx, client,
		informers.V1().ManagedClusters(),
		informers.V1beta2().ManagedClusterSets(),
		informers.V1beta2().ManagedClusterSetBindings(),
		informers.V1beta1().Placements(),
		informers.V1beta1().PlacementDecisions(),
		informers.V1alpha1().AddOnPlacementScores(),
		scheduler, nobody{}, metrics,
	)
	return &world{
		client: client, clock: clock, scheduler: scheduler, controller: controller,
		stores: map[string]cache.Store{
			"ManagedCluster":           informers.V1().ManagedClusters().Informer().GetStore(),
			"ManagedClusterSet":        informers.V1beta2().ManagedClusterSets().Informer().GetStore(),
			"ManagedClusterSetBinding": informers.V1beta2().ManagedClusterSetBindings().Informer().GetStore(),
			"Placement":                informers.V1beta1().Placements().Informer().GetStore(),
			"PlacementDecision":        informers.V1beta1().PlacementDecisions().Informer().GetStore(),
			"AddOnPlacementScore":      informers.V1alpha1().AddOnPlacementScores().Informer().GetStore(),
		},
	}
}

func decoded(raw []byte) (string, runtime.Object, error) {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(raw, &kind); err != nil {
		return "", nil, err
	}
	objects := map[string]runtime.Object{
		"ManagedCluster":           &clusterv1.ManagedCluster{},
		"ManagedClusterSet":        &clusterv1beta2.ManagedClusterSet{},
		"ManagedClusterSetBinding": &clusterv1beta2.ManagedClusterSetBinding{},
		"Placement":                &clusterv1beta1.Placement{},
		"AddOnPlacementScore":      &clusterv1alpha1.AddOnPlacementScore{},
	}
	object, known := objects[kind.Kind]
	if !known {
		return "", nil, fmt.Errorf("kind %q is none that a world has", kind.Kind)
	}
	return kind.Kind, object, json.Unmarshal(raw, object)
}

func (w *world) set(ctx context.Context, raw []byte) error {
	kind, object, err := decoded(raw)
	if err != nil {
		return err
	}
	if placement, ok := object.(*clusterv1beta1.Placement); ok {
		placements := w.client.ClusterV1beta1().Placements(placement.Namespace)
		placement.UID = types.UID(placement.Namespace + "/" + placement.Name)
		if present, err := placements.Get(ctx, placement.Name, metav1.GetOptions{}); err == nil {
			placement.Status = present.Status
			if _, err := placements.Update(ctx, placement, metav1.UpdateOptions{}); err != nil {
				return err
			}
		} else if _, err := placements.Create(ctx, placement, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return w.stores[kind].Update(object)
}

func (w *world) remove(gone reference) error {
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

// refresh brings what the controller wrote into its caches.
func (w *world) refresh(ctx context.Context) error {
	decisions, err := w.client.ClusterV1beta1().PlacementDecisions("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	placements, err := w.client.ClusterV1beta1().Placements("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var found, asking []interface{}
	for i := range decisions.Items {
		found = append(found, &decisions.Items[i])
	}
	for i := range placements.Items {
		asking = append(asking, &placements.Items[i])
	}
	if err := w.stores["PlacementDecision"].Replace(found, ""); err != nil {
		return err
	}
	return w.stores["Placement"].Replace(asking, "")
}

func (w *world) sync(ctx context.Context, key string) (said answer, failed error) {
	namespace, name, _ := strings.Cut(key, "/")
	func() {
		defer func() {
			if problem := recover(); problem != nil {
				said.Panic = fmt.Sprint(problem)
			}
		}()
		// Misconfigured placements and warnings are errors to the controller; the status says all that they say.
		_ = w.controller.Sync(ctx, w.controller.SyncContext(), key)
	}()
	if said.Panic != "" {
		return said, nil
	}
	if err := w.refresh(ctx); err != nil {
		return said, err
	}
	placement, err := w.client.ClusterV1beta1().Placements(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return said, err
	}
	said.Conditions, said.Groups = placement.Status.Conditions, placement.Status.DecisionGroups
	said.Selected = placement.Status.NumberOfSelectedClusters
	said.Decisions = map[string][]string{}
	for _, one := range w.stores["PlacementDecision"].List() {
		decision := one.(*clusterv1beta1.PlacementDecision)
		if decision.Namespace != namespace || decision.Labels[clusterv1beta1.PlacementLabel] != name {
			continue
		}
		said.Decisions[decision.Name] = []string{}
		for _, chosen := range decision.Status.Decisions {
			said.Decisions[decision.Name] = append(said.Decisions[decision.Name], chosen.ClusterName)
		}
	}
	said.Filters, said.Scores = w.scheduler.last.FilterResults(), w.scheduler.last.PrioritizerResults()
	said.Totals = w.scheduler.last.PrioritizerScores()
	if w.scheduler.status.Code() == framework.Warning {
		said.Warning = w.scheduler.status.Message()
	}
	return said, nil
}

func play(ctx context.Context, steps []step) ([]map[string]answer, error) {
	w := newWorld(ctx)
	defer w.controller.SyncContext().Queue().ShutDown()
	var answers []map[string]answer
	for _, one := range steps {
		w.clock.SetTime(one.Now)
		for _, gone := range one.Delete {
			if err := w.remove(gone); err != nil {
				return nil, err
			}
		}
		for _, raw := range one.Set {
			if err := w.set(ctx, raw); err != nil {
				return nil, err
			}
		}
		said := map[string]answer{}
		for _, key := range one.Sync {
			found, err := w.sync(ctx, key)
			if err != nil {
				return nil, err
			}
			said[key] = found
		}
		answers = append(answers, said)
	}
	return answers, nil
}

func main() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	ctx := context.Background()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	answers := bufio.NewWriter(os.Stdout)
	defer answers.Flush()
	for lines.Scan() {
		var steps []step
		err := json.Unmarshal(lines.Bytes(), &steps)
		var said []map[string]answer
		if err == nil {
			said, err = play(ctx, steps)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		if err := json.NewEncoder(answers).Encode(said); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
}
