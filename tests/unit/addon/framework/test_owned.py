"""Objects of addons that somebody deletes while a pass is about to write them."""

from __future__ import annotations

from copy import deepcopy

import pytest

from muster.addon.framework.owned import OwnedObjects
from muster.addon.framework.role_bindings import RoleBinding, owner_of
from muster.fleet.in_process import InProcessClient
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import ObjectKey
from muster.runtime.cache import Informers
from muster.runtime.client import Conflict
from tests.support.in_process import serving
from tests.unit.addon.framework.conftest import BINDINGS

KEY = ObjectKey("default", "hello")


async def test_what_was_deleted_meanwhile_is_a_conflict_and_no_failure() -> None:
    """Conflicts are tried again without a word; a failure would be told to an administrator, who could do nothing about it."""
    async with serving("hub") as hub:
        client = InProcessClient(hub.client(hub.clusters["hub"]))
        owned = OwnedObjects(client, RoleBinding, Informers(client).of(RoleBinding), owner_of, lambda _: None, SYSTEM)
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        body = {"apiVersion": BINDINGS.api_version, "kind": BINDINGS.kind, "metadata": {"name": "b", "namespace": "default"}}
        made = await client.create(BINDINGS, {**body, "roleRef": reference})
        await client.delete(BINDINGS, "b", "default")
        changed = deepcopy(made)
        changed["metadata"]["labels"] = {"a": "b"}
        with pytest.raises(Conflict, match="deleted meanwhile"):
            await owned.change(KEY, made, changed)
