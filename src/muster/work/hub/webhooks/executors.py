"""Executors of works, and whose permissions the writer of a work needs.

Nothing here sends requests. An executor is parsed from the raw spec, because admission must handle whatever a schema permits: an
invalid one is a `MalformedExecutor` with the field.

A change of a work acts with its executor's permissions, whatever is changed: manifests decide what is written as the executor, and
without executor the work runs as the agent itself. So a change requires the old and the new executor; a new work, its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.kube.names import dns1123_subdomain
from muster.work.names import DEFAULT_SERVICE_ACCOUNT

FIELD: Final = "executor"
_WITHOUT_ACCOUNT: Final = "executor service account can not be nil"


def user_name(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"system:serviceaccount:{namespace}:{name}"


@dataclass(frozen=True)
class Executor:
    """A service account of a managed cluster."""

    namespace: str
    name: str

    @property
    def user(self) -> str:
        return user_name(self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


AGENT: Final = Executor("", DEFAULT_SERVICE_ACCOUNT)
"""The executor of a work without one. Agents may be in any namespace, so it is empty."""


class MalformedExecutor(ValueError):
    """`field` is relative to the spec."""

    def __init__(self, field: str, problem: str, message: str = "the executor is malformed") -> None:
        super().__init__(f"{message}: {field} {problem}")
        self.field = field


def executor_of(spec: Mapping[str, Any], at: str = "spec") -> Executor | None:
    """None if the spec has none. Raises MalformedExecutor."""
    executor = spec.get(FIELD)
    if executor is None:
        return None
    at = f"{at}.{FIELD}.subject"
    subject = executor.get("subject") if isinstance(executor, Mapping) else None
    if not isinstance(subject, Mapping):
        raise MalformedExecutor(at, "is missing")
    if subject.get("type") != "ServiceAccount":
        raise MalformedExecutor(f"{at}.type", "is not ServiceAccount", "only support ServiceAccount type for the executor")
    account = subject.get("serviceAccount")
    if not isinstance(account, Mapping):
        raise MalformedExecutor(f"{at}.serviceAccount", "is missing", _WITHOUT_ACCOUNT)
    for field in ("namespace", "name"):
        value = account.get(field)
        if problems := dns1123_subdomain(value if isinstance(value, str) else ""):
            raise MalformedExecutor(f"{at}.serviceAccount.{field}", f"is no name: {problems[0]}")
    return Executor(account["namespace"], account["name"])


def concerned(new: Executor | None, old: Executor | None, *, is_new: bool, nil_counts: bool) -> tuple[Executor, ...]:
    """The executors whose permissions the writer needs: the new one, then the old one. With `nil_counts`, no executor counts as the
    agent."""
    both = (new,) if is_new else (new, old)
    named = [AGENT if executor is None else executor for executor in both if nil_counts or executor is not None]
    return tuple(dict.fromkeys(named))
