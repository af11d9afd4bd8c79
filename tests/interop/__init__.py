"""Go programs against Muster: client-go's informers and clients, and upstream's Open Cluster Management."""
