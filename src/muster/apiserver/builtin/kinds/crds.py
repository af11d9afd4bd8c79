"""CustomResourceDefinition: its validation is in `muster.apiserver.crd`, which is only imported if custom resources are used."""

from __future__ import annotations

from muster.apiserver.registry.strategy import HookContext
from muster.kube.fielderrors import FieldError
from muster.machinery.objects import Object


def prepare_definition(ctx: HookContext, new: Object, old: Object | None) -> None:
    from muster.apiserver.crd import definition

    if ctx.subresource != "status":
        definition.prepare(new, old)


def validate_definition(ctx: HookContext, new: Object, old: Object | None) -> list[FieldError]:
    from muster.apiserver.crd import definition

    if ctx.subresource == "status":
        return definition.check_status(new)
    for text in definition.definition_warnings(new, old):
        ctx.warn(text)
    if old is not None and old["metadata"].get("deletionTimestamp") and new.get("spec") == old.get("spec"):
        return []  # a CRD that was stored before a rule was added must still be deletable
    return definition.check_definition(new, old)


def delete_definition(ctx: HookContext, marked: Object) -> None:
    from muster.apiserver.crd import accepted_names

    accepted_names.begin_deletion(marked, ctx.now())
