"""What is served: the type of a row, the table of a cluster's rows, and the generated facts of the built-in types."""
