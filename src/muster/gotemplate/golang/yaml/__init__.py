"""YAML as Go's `gopkg.in/yaml.v3` v3.0.1 reads and writes it: the dialect of policy templates.

`dump` writes what an encoder with an indent of 2 writes, `load` reads the first document of a text into plain values as `Unmarshal`
into an `interface{}` does, and both fail with yaml.v3's texts.
"""

from __future__ import annotations

from muster.gotemplate.golang.yaml.emitter import dump
from muster.gotemplate.golang.yaml.errors import YAMLError
from muster.gotemplate.golang.yaml.reader import load

__all__ = ["YAMLError", "dump", "load"]
