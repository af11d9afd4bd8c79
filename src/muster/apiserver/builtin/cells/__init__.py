"""The cells of `kubectl get` for built-in kinds (`k8s.io/kubernetes/pkg/printers/internalversion`): kind → column name → function
of the object.

A cell that changes with time (an age in a text) is returned as `Live` and rendered with the Table.
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
