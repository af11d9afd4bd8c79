"""Code that every package may use. It imports no other package.

Names of objects (`objects`), users (`authentication`), access attributes and decisions (`authorization`), clock and randomness
(`clock`, `backoff`), the work queue, metrics (`metrics`), logs and printable text, private files, and the confinement of pods
(`confinement`).
"""
