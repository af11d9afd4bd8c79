"""The registry: the type of a served resource, the table of a cluster, strategies, and generated data of the built-in types."""
