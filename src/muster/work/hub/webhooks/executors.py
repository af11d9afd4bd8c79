"""Executors as the hub sees them: who a work runs as, and whom a change of it concerns.

Nothing here asks anybody. An executor is read from the spec as it came, because admission has to cope with whatever a schema lets
through: what is no executor is a `MalformedExecutor` that names the field.

Whoever changes a work acts with its executor's rights, whatever it is he changes: by its manifests he decides what is written in
that name, by taking the name away he gives the work to the agent itself. So a change concerns the executor that was and the one
that will be; a new work, the one it has.
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
    """A service account as a user."""
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
"""Who a work without executor runs as. Agents live in namespaces of their own choice, so none is said."""


class MalformedExecutor(ValueError):
    """`field` is below the spec."""

    def __init__(self, field: str, problem: str, message: str = "the executor is malformed") -> None:
        super().__init__(f"{message}: {field} {problem}")
        self.field = field


def executor_of(spec: Mapping[str, Any], at: str = "spec") -> Executor | None:
    """None where the spec names none. Raises MalformedExecutor."""
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
    """Whose rights the writer needs: as whom it will run, then as whom it ran. With `nil_counts`, no executor is the agent."""
    both = (new,) if is_new else (new, old)
    named = [AGENT if executor is None else executor for executor in both if nil_counts or executor is not None]
    return tuple(dict.fromkeys(named))
