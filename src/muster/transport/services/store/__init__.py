"""Services without a Kubernetes API: objects are read from the embedded server's store, and written through its API pipeline as the
agent's user.
"""
