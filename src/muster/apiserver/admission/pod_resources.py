"""What a pod asks for and may use: the sum of its containers, or the most that its init containers need, if that is more.

Follows Kubernetes' `component-helpers/resource`: sidecars (init containers that restart always) count with the containers and with
every init container after them, and what the pod itself says for CPU, memory or huge pages takes the place of the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from muster.machinery.golang.quantities import Quantity, QuantityError, parse_quantity
from muster.machinery.objects import Object

Amounts = dict[str, Quantity]
REQUESTS: Final = "requests"
LIMITS: Final = "limits"


def amounts(given: Mapping[str, Any] | None) -> Amounts:
    """A resource list as quantities; what is none is for validation to refuse."""
    found: Amounts = {}
    for name, text in (given or {}).items():
        try:
            found[name] = parse_quantity(str(text))
        except QuantityError:
            continue
    return found


def add(total: Amounts, more: Mapping[str, Quantity]) -> None:
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def pod_amounts(spec: Object, field: str) -> Amounts:
    """The `requests` or `limits` of a pod, without overhead."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        add(total, container_amounts(container, field))
    sidecars: Amounts = {}
    most: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = container_amounts(container, field)
        if container.get("restartPolicy") == "Always":
            add(total, own)
            add(sidecars, own)
            _raise_to(most, sidecars)
        else:
            add(own, sidecars)
            _raise_to(most, own)
    _raise_to(total, most)
    for name, quantity in amounts((spec.get("resources") or {}).get(field)).items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            total[name] = quantity
    return total


def container_amounts(container: Object, field: str) -> Amounts:
    return amounts((container.get("resources") or {}).get(field))


def containers(spec: Object) -> Iterable[Object]:
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def _raise_to(total: Amounts, least: Mapping[str, Quantity]) -> None:
    for name, quantity in least.items():
        if name not in total or quantity > total[name]:
            total[name] = quantity
