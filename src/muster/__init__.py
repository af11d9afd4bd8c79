"""Muster: Open Cluster Management in Python.

`muster.Fleet` runs a hub and managed clusters in this process; `muster.runtime` is for controllers; docs/python.md shows both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.envtest import Fleet as Fleet

    __version__: str

__all__ = ["Fleet", "__version__"]


def __getattr__(name: str) -> object:
    # On demand: whoever imports one room must not load the whole house.
    if name == "Fleet":
        from muster.envtest import Fleet

        return Fleet
    if name == "__version__":
        from importlib.metadata import version

        return version("muster")
    raise AttributeError(f"module 'muster' has no attribute {name!r}")
