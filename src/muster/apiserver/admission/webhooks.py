"""Admission webhooks of one cluster: mutating ones are called one after another, validating ones concurrently.

Configurations are compiled when they change and otherwise found by a generation number, so a cluster without webhooks pays next to
nothing per write. Mutating webhooks run in order of configuration name, each with the object as the previous ones changed it. After
a change the whole chain runs once more (`chain`): earlier webhooks with reinvocationPolicy IfNeeded are called again, and if
in-process plugins change the object in that second round, so are all others with that policy.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import orjson

from muster.apiserver import errors
from muster.apiserver.admission.attributes import AdmissionAttributes, is_exempt
from muster.apiserver.admission.chain import Operation, Reinvocation
from muster.apiserver.admission.hooks import CallFailed, Hook
from muster.apiserver.bodies import decode_patched
from muster.apiserver.cluster import Cluster
from muster.apiserver.context import Context
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.request import WriteOptions
from muster.kube.patching.jsonpatch import PatchError, apply_json_patch
from muster.machinery.golang.quoting import quote
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object

log = get_logger(__name__)
MUTATING: Final = "admissionregistration.k8s.io/mutatingwebhookconfigurations"
VALIDATING: Final = "admissionregistration.k8s.io/validatingwebhookconfigurations"
_IGNORE_UNKNOWN_FIELDS: Final = WriteOptions(field_validation="Ignore")


class _Hooks:
    """The compiled webhooks of all configurations of one kind."""

    def __init__(self, cluster: Cluster, storage: str) -> None:
        self._cluster = cluster
        self._storage = storage
        self._built_for = -1
        self._hooks: list[Hook] = []

    def current(self) -> list[Hook]:
        generation = self._cluster.store.generation(self._cluster.name, self._storage)
        if generation != self._built_for:
            self._hooks = self._build()
            self._built_for = generation
        return self._hooks

    def _build(self) -> list[Hook]:
        route, mutating = self._cluster.webhook_route, self._storage == MUTATING
        return [
            Hook(configuration["metadata"]["name"], raw, route, mutating)
            for configuration in self._cluster.scan(self._storage)
            for raw in configuration.get("webhooks") or ()
        ]


class MutatingWebhooks:
    def __init__(self, cluster: Cluster) -> None:
        self._hooks = _Hooks(cluster, MUTATING)

    async def mutate(self, ctx: Context, resource: ServedResource, operation: Operation) -> Object | None:
        hooks = self._hooks.current()
        if not hooks or is_exempt(ctx, resource, operation):
            return operation.new
        attributes = AdmissionAttributes(ctx, resource, operation)
        first = operation.reinvocation
        called, reinvoke = (set[str](), set[str]()) if first is None else (first.called, first.reinvoke)
        if first is not None and called and orjson.dumps(operation.new) != first.output:
            reinvoke |= called
            called.clear()
        changed = False
        for hook in hooks:
            if first is not None and hook.key not in reinvoke:
                continue
            row = await hook.matches(attributes)
            if row is None:
                continue
            if await self._call(hook, attributes, row):
                changed = True
                reinvoke |= called
                called.clear()
            if hook.reinvoked_if_needed:
                called.add(hook.key)
        result = attributes.result
        if changed and first is None:
            operation.reinvocation = Reinvocation(called, reinvoke, orjson.dumps(result))
        return result

    async def _call(self, hook: Hook, attributes: AdmissionAttributes, row: ServedResource) -> bool:
        """Call one webhook and apply its patch; return whether that changed the object."""
        try:
            patch = await hook.call(attributes, row)
        except CallFailed as problem:
            _apply_failure_policy(hook, problem)
            return False
        if patch is None:
            return False
        before = (await attributes.objects(row))[0]
        if before is None:
            text = f"admission webhook {quote(hook.name)} attempted to modify the object, which is not supported for this operation"
            raise errors.internal(text)
        after = _patched(attributes.ctx, attributes.type_of(row), before, patch)
        changed = after != before
        await attributes.replace(row, after)
        return changed


def _patched(ctx: Context, row: ServedResource, obj: Object, patch: list[Any]) -> Object:
    try:
        patched = apply_json_patch(obj, patch)
        if not isinstance(patched, dict):
            raise errors.internal("the patch of the webhook does not produce an object")
        return decode_patched(ctx, row, patched, _IGNORE_UNKNOWN_FIELDS)
    except (PatchError, AttributeError) as problem:
        raise errors.internal(str(problem)) from None
    except errors.ApiError as problem:
        raise errors.internal(problem.message.removeprefix(errors.cannot_decode(row, "").message)) from None


def _apply_failure_policy(hook: Hook, problem: CallFailed) -> None:
    if not hook.ignores_failure:
        raise errors.internal(str(problem))
    log.warning("webhook failed, ignored by its failure policy", webhook=hook.key, problem=str(problem))


class ValidatingWebhooks:
    def __init__(self, cluster: Cluster) -> None:
        self._hooks = _Hooks(cluster, VALIDATING)

    async def validate(self, ctx: Context, resource: ServedResource, operation: Operation) -> None:
        hooks = self._hooks.current()
        if not hooks or is_exempt(ctx, resource, operation):
            return
        attributes = AdmissionAttributes(ctx, resource, operation)
        matched = [(hook, row) for hook in hooks if (row := await hook.matches(attributes)) is not None]
        if len(matched) == 1:
            problem = await _denial(*matched[0], attributes)
            if problem is not None:
                raise problem
        elif matched:
            await _call_all(matched, attributes)


async def _call_all(matched: list[tuple[Hook, ServedResource]], attributes: AdmissionAttributes) -> None:
    """Call all concurrently; raise the error of the first one, in order, that denies."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_denial(hook, row, attributes)) for hook, row in matched]
    for task in tasks:
        problem = task.result()
        if problem is not None:
            raise problem


async def _denial(hook: Hook, row: ServedResource, attributes: AdmissionAttributes) -> errors.ApiError | None:
    try:
        await hook.call(attributes, row)
        return None
    except CallFailed as problem:
        try:
            _apply_failure_policy(hook, problem)
        except errors.ApiError as error:
            return error
        return None
    except errors.ApiError as error:
        return error
