"""Dry runs of writes as the executor: the same request that will be sent, so that the server's authorization and admission decide.

A create has two forms, because it is authorized without a name: an executor that may create, or escalate, only objects of certain
names could have applied it, which has a name; one of the two forms must pass. An executor that may neither create without a name
nor patch cannot be checked. Owner references are the agent's own and are not part of it. Results are cached with the executor's
permissions, by all that was sent, including the object's resourceVersion.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import replace

import orjson
from msgspec import structs

from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectRef
from muster.runtime.client import AlreadyExists, Conflict, Forbidden, KubeClient, NotFound, StatusError
from muster.work.agent.executor.demands import action, shortened
from muster.work.agent.executor.executor_access import ExecutorAccess
from muster.work.agent.interfaces import ManifestWrite
from muster.work.agent.writes import send

log = get_logger("muster.work.agent.executor")


class DryRunRefused(Exception):
    """The dry run was not possible, or its result proves nothing about permissions; the text has the reason."""


class DryRuns:
    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._warned = False

    async def problem(self, access: ExecutorAccess, ref: ObjectRef, write: ManifestWrite, live: Object | None) -> str:
        """Why the server would not take the write from the executor; empty if it would. Raises Unrehearsed; Conflict, AlreadyExists
        and NotFound of an object that is not as it was thought to be; and KubeError where the server could not be asked."""
        write = _unowned(write, live)
        if write.verb != "create":
            return await self._dry_run(access, ref, write)
        nameless = (await access.authorize(structs.replace(action(ref, "create"), name=""))).allowed
        problem = await self._dry_run(access, ref, write) if nameless else ""
        if nameless and not problem:
            return ""
        if (await access.authorize(action(ref, "patch"))).allowed:
            try:
                return await self._dry_run(access, ref, replace(write, verb="apply", force=True))
            except (StatusError, DryRunRefused):
                if not nameless:
                    raise
        elif not nameless:
            raise DryRunRefused(f"{access.who.name} may create it by name only, and not patch it")
        return problem

    async def _dry_run(self, access: ExecutorAccess, ref: ObjectRef, write: ManifestWrite) -> str:
        return await access.rehearsals.get_or_load(_question(ref, write), lambda: self._repeated(access, ref, write))

    async def _repeated(self, access: ExecutorAccess, ref: ObjectRef, write: ManifestWrite) -> str:
        tried, problem = 0, ""
        while not tried or (problem and await access.should_retry(tried)):
            tried += 1
            problem = await self._once(access, ref, write)
        return problem

    async def _once(self, access: ExecutorAccess, ref: ObjectRef, write: ManifestWrite) -> str:
        try:
            await send(self._client.as_user(access.who.name), ref, write, dry_run=True)
        except Forbidden as error:
            if error.details.get("kind") == "serviceaccounts":
                # The refusal was the agent's own.
                self._warn(access)
                raise DryRunRefused(f"the work agent may not impersonate {access.who.name}") from error
            return shortened(error.message)
        except (AlreadyExists, Conflict):
            raise
        except StatusError as error:
            # A namespace that is yet to come, a role that the same work brings, an invalid object.
            if error.code >= 500 or error.code == 429 or (isinstance(error, NotFound) and write.verb == "update"):
                raise
            raise DryRunRefused(shortened(error.message)) from error
        return ""

    def _warn(self, access: ExecutorAccess) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                "may not impersonate executors: roles and bindings are checked without a rehearsal", executor=access.who.name
            )


def _unowned(write: ManifestWrite, live: Object | None) -> ManifestWrite:
    metadata = {key: value for key, value in write.document["metadata"].items() if key != "ownerReferences"}
    owners = (live or {}).get("metadata", {}).get("ownerReferences")
    if owners and write.verb == "update":
        metadata["ownerReferences"] = owners
    return replace(write, document={**write.document, "metadata": metadata})


def _question(ref: ObjectRef, write: ManifestWrite) -> Hashable:
    sent = hashlib.blake2b(orjson.dumps(write.document, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
    return ref, write.verb, write.manager, write.force, sent
