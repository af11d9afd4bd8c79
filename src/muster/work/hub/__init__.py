"""The hub's side of works: who may write which, one work for each of many clusters, and the end of finished ones."""
