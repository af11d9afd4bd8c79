"""How objects are shown: negotiated media types, lists, tables, metadata only, and the answers that carry them."""
