"""The managed cluster's side of registration: getting and keeping a credential of the hub, and telling how the cluster is."""
