"""What a cluster has, kept up to date by watches: reflectors, informers, and caches that hold bytes."""
