"""The agent's side: a `KubeClient` over a mirror of the hub's objects.

`config` reads the configuration of a hub, and `dialer` makes a client from it. `connection` connects to one of the hub's servers at
a time. `subscriptions` keep a `mirror` per kind current with one of `streams` after another, whose events `mirror_events` decodes.
`client` has the verbs: it reads from the mirrors (`watches`), writes by events, and requests `tokens`.
"""
