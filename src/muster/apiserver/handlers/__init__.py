"""What answers requests for resources: reading, watching, writing, patching and deleting, reviews, tokens, requests to pods."""
