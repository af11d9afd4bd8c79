package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
)

// judge holds what the checks share: a client with default settings and a namespace of its own.
type judge struct {
	*kubernetes.Clientset
	config    *rest.Config
	namespace string
}

type check struct {
	name string
	run  func(*judge, context.Context) error
}

var checks = []check{
	{"typed informer", informed("typed")},
	{"dynamic informer", informed("dynamic")},
	{"metadata informer", informed("metadata")},
	{"create and read every built-in shape", (*judge).shapes},
	{"zero replicas stay zero", (*judge).zeroReplicas},
	{"typed server-side apply and conflict", (*judge).apply},
	{"strategic merge patch", (*judge).strategicPatch},
	{"scale subresource", (*judge).scale},
	{"optimistic locking with retry", (*judge).locking},
	{"delete options and preconditions", (*judge).deleteOptions},
	{"paged list", (*judge).pages},
	{"delete collection", (*judge).deleteCollection},
	{"service-account token and review", (*judge).token},
	{"access review", (*judge).access},
	{"lease with microseconds", (*judge).lease},
	{"leader election", (*judge).leaderElection},
	{"preferred discovery", (*judge).discovery},
	{"watch with timeout", (*judge).watchTimeout},
	{"namespace deletion", (*judge).namespaceDeletion},
}

func runChecks(config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx := context.Background()
	failed := false
	for index, each := range checks {
		j := &judge{client, config, fmt.Sprintf("judge-%d-%d", os.Getpid(), index)}
		began := time.Now()
		err := j.in(ctx, each.run)
		line := map[string]any{"check": each.name, "ok": err == nil, "milliseconds": time.Since(began).Milliseconds()}
		if err != nil {
			failed = true
			line["error"] = err.Error()
		}
		say(line)
	}
	if failed {
		os.Exit(1)
	}
	return nil
}

// in runs one check in a fresh namespace and with a limit on its time.
func (j *judge) in(ctx context.Context, run func(*judge, context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	if _, err := j.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: j.namespace}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	defer func() {
		_ = j.CoreV1().Namespaces().Delete(context.Background(), j.namespace, metav1.DeleteOptions{})
	}()
	return run(j, ctx)
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func expect(condition bool, format string, arguments ...any) error {
	if condition {
		return nil
	}
	return fmt.Errorf(format, arguments...)
}

// informed writes an object through its whole life and waits for the informer to have told all of it.
func informed(kind string) func(*judge, context.Context) error {
	return func(j *judge, ctx context.Context) error {
		maps := j.CoreV1().ConfigMaps(j.namespace)
		if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: named("before")}, metav1.CreateOptions{}); err != nil {
			return err
		}
		informer, err := newInformer(j.config, j.namespace, kind)
		if err != nil {
			return err
		}
		seen := make(chan string, 100)
		tell := func(event string, object any) {
			if c := describe(event, object); c.Name == "before" || c.Name == "after" {
				seen <- c.Event + " " + c.Name
			}
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { tell("add", object) },
			UpdateFunc: func(_, object any) { tell("update", object) },
			DeleteFunc: func(object any) { tell("delete", object) },
		}); err != nil {
			return err
		}
		running, stop := context.WithCancel(ctx)
		defer stop()
		go informer.RunWithContext(running)
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return errors.New("never synced")
		}
		object, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: named("after")}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		object.Data = map[string]string{"k": "v"}
		if _, err := maps.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
			return err
		}
		if err := maps.Delete(ctx, "after", metav1.DeleteOptions{}); err != nil {
			return err
		}
		var got []string
		for _, wanted := range []string{"add before", "add after", "update after", "delete after"} {
			select {
			case event := <-seen:
				got = append(got, event)
				if event != wanted {
					return fmt.Errorf("wanted %q, got %q", wanted, got)
				}
			case <-ctx.Done():
				return fmt.Errorf("waited for %q, got only %q", wanted, got)
			}
		}
		return nil
	}
}

// shapes sends kinds whose protobuf form has traps (inlined structs, quantities, int-or-string, bytes, times) and
// compares what comes back with what was sent.
func (j *judge) shapes(ctx context.Context) error {
	pod := &corev1.Pod{ObjectMeta: named("p"), Spec: corev1.PodSpec{
		AutomountServiceAccountToken: ptr(false),
		Volumes: []corev1.Volume{
			{Name: "e", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr(resource.MustParse("1Gi"))}}},
			{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}, Optional: ptr(true)}}},
		},
		Containers: []corev1.Container{{
			Name: "m", Image: "example/m:1",
			Resources:      corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")}},
			LivenessProbe:  &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/live", Port: intstr.FromString("web")}}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}},
			Env:            []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "k"}}}},
		}},
	}}
	pod, err := j.CoreV1().Pods(j.namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	main := pod.Spec.Containers[0]
	if err := errors.Join(
		expect(pod.Spec.Volumes[0].EmptyDir != nil && pod.Spec.Volumes[0].EmptyDir.SizeLimit.String() == "1Gi", "volume: %v", pod.Spec.Volumes),
		expect(pod.Spec.Volumes[1].ConfigMap != nil && pod.Spec.Volumes[1].ConfigMap.Name == "x" && *pod.Spec.Volumes[1].ConfigMap.Optional, "volume: %v", pod.Spec.Volumes),
		expect(main.Resources.Requests.Cpu().String() == "100m", "cpu: %v", main.Resources),
		expect(main.LivenessProbe.HTTPGet != nil && main.LivenessProbe.HTTPGet.Port.StrVal == "web", "probe: %v", main.LivenessProbe),
		expect(main.ReadinessProbe.TCPSocket != nil && main.ReadinessProbe.TCPSocket.Port.IntVal == 80, "probe: %v", main.ReadinessProbe),
		expect(main.Env[0].ValueFrom.SecretKeyRef.Name == "s", "env: %v", main.Env),
		expect(pod.Spec.AutomountServiceAccountToken != nil && !*pod.Spec.AutomountServiceAccountToken, "false became %v", pod.Spec.AutomountServiceAccountToken),
	); err != nil {
		return err
	}
	secret, err := j.CoreV1().Secrets(j.namespace).Create(ctx, &corev1.Secret{ObjectMeta: named("s"), Data: map[string][]byte{"k": {0, 255, 1}}, StringData: map[string]string{"t": "text"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	role, err := j.RbacV1().Roles(j.namespace).Create(ctx, &rbacv1.Role{ObjectMeta: named("r"), Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return errors.Join(
		expect(string(secret.Data["k"]) == "\x00\xff\x01" && string(secret.Data["t"]) == "text", "secret: %v", secret.Data),
		expect(len(role.Rules) == 1 && len(role.Rules[0].Verbs) == 2, "role: %v", role.Rules),
	)
}

func (j *judge) deployment(ctx context.Context, name string, replicas int32) (*appsv1.Deployment, error) {
	labels := map[string]string{"app": name}
	return j.AppsV1().Deployments(j.namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: named(name),
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example/main:1"}}},
			},
		},
	}, metav1.CreateOptions{})
}

func (j *judge) zeroReplicas(ctx context.Context) error {
	zero, err := j.deployment(ctx, "zero", 0)
	if err != nil {
		return err
	}
	return expect(*zero.Spec.Replicas == 0, "replicas: %d", *zero.Spec.Replicas)
}

func (j *judge) apply(ctx context.Context) error {
	maps := j.CoreV1().ConfigMaps(j.namespace)
	wanted := func(value string) *applycorev1.ConfigMapApplyConfiguration {
		return applycorev1.ConfigMap("a", j.namespace).WithData(map[string]string{"k": value})
	}
	if _, err := maps.Apply(ctx, wanted("1"), metav1.ApplyOptions{FieldManager: "one"}); err != nil {
		return err
	}
	_, err := maps.Apply(ctx, wanted("2"), metav1.ApplyOptions{FieldManager: "two"})
	if !apierrors.IsConflict(err) {
		return fmt.Errorf("wanted a conflict, got %v", err)
	}
	forced, err := maps.Apply(ctx, wanted("2"), metav1.ApplyOptions{FieldManager: "two", Force: true})
	if err != nil {
		return err
	}
	extracted, err := applycorev1.ExtractConfigMap(forced, "two")
	if err != nil {
		return err
	}
	return expect(extracted.Data["k"] == "2", "extracted: %v", extracted.Data)
}

func (j *judge) strategicPatch(ctx context.Context) error {
	if _, err := j.deployment(ctx, "w", 1); err != nil {
		return err
	}
	patch := `{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"example/side:1"}]}}}}`
	patched, err := j.AppsV1().Deployments(j.namespace).Patch(ctx, "w", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return expect(len(patched.Spec.Template.Spec.Containers) == 2, "containers: %v", patched.Spec.Template.Spec.Containers)
}

func (j *judge) scale(ctx context.Context) error {
	if _, err := j.deployment(ctx, "w", 1); err != nil {
		return err
	}
	deployments := j.AppsV1().Deployments(j.namespace)
	scale, err := deployments.GetScale(ctx, "w", metav1.GetOptions{})
	if err != nil {
		return err
	}
	scale.Spec.Replicas = 7
	if _, err := deployments.UpdateScale(ctx, "w", scale, metav1.UpdateOptions{}); err != nil {
		return err
	}
	scaled, err := deployments.Get(ctx, "w", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return expect(*scaled.Spec.Replicas == 7 && scaled.Generation == 2, "replicas %d, generation %d", *scaled.Spec.Replicas, scaled.Generation)
}

func (j *judge) locking(ctx context.Context) error {
	maps := j.CoreV1().ConfigMaps(j.namespace)
	stale, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: named("a")}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	fresh := stale.DeepCopy()
	fresh.Data = map[string]string{"k": "1"}
	if _, err := maps.Update(ctx, fresh, metav1.UpdateOptions{}); err != nil {
		return err
	}
	stale.Data = map[string]string{"k": "2"}
	if _, err := maps.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("wanted a conflict, got %v", err)
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := maps.Get(ctx, "a", metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Data["k"] = "2"
		_, err = maps.Update(ctx, current, metav1.UpdateOptions{})
		return err
	})
}

func (j *judge) deleteOptions(ctx context.Context) error {
	maps := j.CoreV1().ConfigMaps(j.namespace)
	object, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: named("a")}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	wrong := types.UID("11111111-1111-1111-1111-111111111111")
	if err := maps.Delete(ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}}); !apierrors.IsConflict(err) {
		return fmt.Errorf("wanted a conflict, got %v", err)
	}
	foreground := metav1.DeletePropagationForeground
	if err := maps.Delete(ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &object.UID}, PropagationPolicy: &foreground}); err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := maps.Get(ctx, "a", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

func (j *judge) fill(ctx context.Context, count int) error {
	for i := range count {
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%03d", i), Labels: map[string]string{"filled": "yes"}}}
		if _, err := j.CoreV1().Secrets(j.namespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (j *judge) pages(ctx context.Context) error {
	if err := j.fill(ctx, 25); err != nil {
		return err
	}
	seen := 0
	pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		list, err := j.CoreV1().Secrets(j.namespace).List(ctx, options)
		if err == nil {
			seen++
		}
		return list, err
	}))
	pages.PageSize = 10
	names := map[string]bool{}
	err := pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: "filled=yes"}, func(object runtime.Object) error {
		names[object.(*corev1.Secret).Name] = true
		return nil
	})
	return errors.Join(err, expect(len(names) == 25 && seen == 3, "%d names in %d pages", len(names), seen))
}

func (j *judge) deleteCollection(ctx context.Context) error {
	if err := j.fill(ctx, 5); err != nil {
		return err
	}
	secrets := j.CoreV1().Secrets(j.namespace)
	if err := secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "filled=yes"}); err != nil {
		return err
	}
	left, err := secrets.List(ctx, metav1.ListOptions{})
	return errors.Join(err, expect(err != nil || len(left.Items) == 0, "left: %v", left))
}

func (j *judge) token(ctx context.Context) error {
	if _, err := j.CoreV1().ServiceAccounts(j.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: named("robot")}, metav1.CreateOptions{}); err != nil {
		return err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr(int64(600))}}
	token, err := j.CoreV1().ServiceAccounts(j.namespace).CreateToken(ctx, "robot", request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	review, err := j.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	user := "system:serviceaccount:" + j.namespace + ":robot"
	if err := expect(review.Status.Authenticated && review.Status.User.Username == user, "review: %+v", review.Status); err != nil {
		return err
	}
	config := rest.AnonymousClientConfig(j.config)
	config.BearerToken = token.Status.Token
	robot, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	self, err := robot.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = robot.CoreV1().Secrets(j.namespace).List(ctx, metav1.ListOptions{})
	return errors.Join(
		expect(self.Status.UserInfo.Username == user, "self: %+v", self.Status),
		expect(apierrors.IsForbidden(err), "wanted forbidden, got %v", err),
	)
}

func (j *judge) access(ctx context.Context) error {
	mine, err := j.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Group: "apps", Resource: "deployments", Namespace: j.namespace}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	other, err := j.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "nobody", ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: j.namespace}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return expect(mine.Status.Allowed && !other.Status.Allowed, "mine %+v, other %+v", mine.Status, other.Status)
}

func (j *judge) lease(ctx context.Context) error {
	renewed := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC))
	leases := j.CoordinationV1().Leases(j.namespace)
	if _, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: named("l"), Spec: coordinationv1.LeaseSpec{RenewTime: &renewed, LeaseDurationSeconds: ptr(int32(15))}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	lease, err := leases.Get(ctx, "l", metav1.GetOptions{})
	return errors.Join(err, expect(err != nil || lease.Spec.RenewTime.Time.Equal(renewed.Time), "renewed: %v", lease))
}

func (j *judge) leaderElection(ctx context.Context) error {
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, j.namespace, "leader", j.CoreV1(), j.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: "me"})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	led := false
	leaderelection.RunOrDie(running, leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			// Between two renewals: a renewal that is cancelled in flight may still count and make the release too late.
			OnStartedLeading: func(context.Context) {
				led = true
				time.AfterFunc(time.Second, stop)
			},
			OnStoppedLeading: func() {},
		},
	})
	lease, err := j.CoordinationV1().Leases(j.namespace).Get(ctx, "leader", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return expect(led && *lease.Spec.HolderIdentity == "", "led %v, holder %q", led, *lease.Spec.HolderIdentity)
}

func (j *judge) discovery(ctx context.Context) error {
	lists, err := discovery.ServerPreferredResources(j.Discovery())
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, list := range lists {
		for _, each := range list.APIResources {
			found[list.GroupVersion+"/"+each.Name] = true
		}
	}
	version, err := j.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	return errors.Join(
		expect(found["v1/configmaps"] && found["apps/v1/deployments"] && found["rbac.authorization.k8s.io/v1/roles"], "found %d resources", len(found)),
		expect(strings.HasPrefix(version.GitVersion, "v1.35."), "version %q", version.GitVersion),
	)
}

func (j *judge) watchTimeout(ctx context.Context) error {
	stream, err := j.CoreV1().ConfigMaps(j.namespace).Watch(ctx, metav1.ListOptions{TimeoutSeconds: ptr(int64(2)), AllowWatchBookmarks: true})
	if err != nil {
		return err
	}
	began := time.Now()
	for event := range stream.ResultChan() {
		if event.Type == watch.Error {
			return fmt.Errorf("error event: %v", event.Object)
		}
	}
	elapsed := time.Since(began)
	return expect(elapsed > time.Second && elapsed < 10*time.Second, "ended after %v", elapsed)
}

func (j *judge) namespaceDeletion(ctx context.Context) error {
	name := j.namespace + "-extra"
	namespaces := j.CoreV1().Namespaces()
	if _, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: named(name)}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := j.CoreV1().ConfigMaps(name).Create(ctx, &corev1.ConfigMap{ObjectMeta: named("a")}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

func ptr[T any](value T) *T { return &value }
