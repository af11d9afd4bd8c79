"""The reference pages of the documentation, written from the code that they describe.

    python -m tools.reference docs/reference            # write them
    python -m tools.reference --check docs/reference    # say which are stale, and end with 1 if one is

A page is a pure function of the code: commands of what click knows, feature gates of the components' tables and of the defaults
in their commands, metrics of their declarations, kinds of the CustomResourceDefinitions. What only a person can say, the meaning
of a gate, stands beside the generator, which refuses to write a page that lacks one.
"""

from tools.reference.pages import PAGES, render, stale, write

__all__ = ["PAGES", "render", "stale", "write"]
