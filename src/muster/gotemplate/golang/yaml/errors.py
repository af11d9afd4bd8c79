"""The error of reading and writing YAML."""

from __future__ import annotations

from muster.machinery.golang.errors import GoError


class YAMLError(GoError):
    """What yaml.v3 would have returned as its error; the text is its own, `yaml: ` included."""
