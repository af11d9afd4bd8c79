"""What every controller stands on: a client, informers and caches, work queues, leader election, events, patches, webhooks.

It knows Kubernetes and nothing of Open Cluster Management. A process is put together from its parts like this: a `KubeClient`
(`HttpClient` from a kubeconfig, or `InProcessClient` of `direct.py` for the embedded server), `Informers` on it, a `Controller`
per kind of work with `watch(informer, keys)` and `async reconcile(key)`, all run in one TaskGroup, under a `LeaderElector`
where only one may act. Time and chance are handed in everywhere (`clock.py`).
"""
