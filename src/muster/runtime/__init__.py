"""The framework that all controllers stand on. It knows Kubernetes, and neither Open Cluster Management nor the embedded server.

`client` talks to a cluster, `cache` keeps what it says (informers), `auth` asks it who somebody is and what they may do,
`controller` reconciles (controllers, leader election, events), `webhook` answers admission reviews, `install` puts things there,
`process` runs all of that together. A process is made like this: a `KubeClient` from a kubeconfig, `Informers` on it, a
`Controller` per kind of work with `watch(informer, keys)` and `async reconcile(key)`, all run in one TaskGroup, under a
`LeaderElector` where only one may act. Time and chance are handed in everywhere (`muster.machinery.clock`).
"""
