"""Client libraries are imported where they are used: none of them is needed to import this package, and whoever uses one has it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def library(module: str) -> Any:
    """A module of a client library. Raises ImportError that says what to install; an error inside of the library stays its own."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in (package, module):
            raise
        raise ImportError(f"{module} is not installed here: pip install {package}", name=module) from error
