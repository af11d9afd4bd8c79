"""Handlers of resource requests: reads, watches, writes, patches, deletion, reviews, tokens, and requests to pods."""
