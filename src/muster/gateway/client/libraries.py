"""Lazy imports of client libraries: none of them is needed to import this package."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def library(module: str) -> Any:
    """A module of a client library. Raises ImportError with the package to install; an ImportError inside the library is raised
    unchanged."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in (package, module):
            raise
        raise ImportError(f"{module} is not installed here: pip install {package}", name=module) from error
