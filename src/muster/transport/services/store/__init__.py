"""Services without a Kubernetes API beside them: objects are read from the embedded server's store, and written through its
pipeline in whoever's name an agent speaks."""
