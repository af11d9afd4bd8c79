"""What the cells of `kubectl get` show for each built-in kind: kind → column name → function of the object.

A cell that changes by itself (an age inside a text) is returned as `Live` and rendered when the Table is.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.apiserver.builtin.cells.formats import Cell, Live

from . import cluster, extension, network, storage, workloads

CELLS: Mapping[str, Mapping[str, Cell]] = {
    **workloads.CELLS,
    **network.CELLS,
    **storage.CELLS,
    **cluster.CELLS,
    **extension.CELLS,
}

__all__ = ["CELLS", "Cell", "Live"]
