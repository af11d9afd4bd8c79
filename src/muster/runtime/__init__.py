"""The framework of all controllers. It knows Kubernetes, but neither Open Cluster Management nor the embedded API server.

`client` sends requests to a cluster, `cache` has informers, `auth` authenticates and authorizes by the cluster's APIs, `controller`
has controllers, leader election and events, `webhook` serves admission reviews, `install` applies what installations share, and
`process` runs all of that. A process is made like this: a `KubeClient` from a kubeconfig, `Informers` on it, `Controller`s with
`watch(informer, keys)` and `async reconcile(key)`, all run in one TaskGroup, under a `LeaderElector` if only one replica may be
active. Clock and random source are always parameters (`muster.machinery.clock`).
"""
