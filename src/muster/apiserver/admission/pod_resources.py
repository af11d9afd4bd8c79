"""The requests and limits of a pod: the sum over its containers, or the maximum that its init containers need if that is greater.

Follows `k8s.io/component-helpers/resource`: sidecars (init containers that always restart) are added to the containers and to every
init container after them, and pod-level values for CPU, memory and huge pages replace the sum.
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
    """A resource list as quantities. Invalid quantities are left out; validation rejects them."""
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
    init_maximum: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = container_amounts(container, field)
        if container.get("restartPolicy") == "Always":
            add(total, own)
            add(sidecars, own)
            _raise_to_maximum(init_maximum, sidecars)
        else:
            add(own, sidecars)
            _raise_to_maximum(init_maximum, own)
    _raise_to_maximum(total, init_maximum)
    for name, quantity in amounts((spec.get("resources") or {}).get(field)).items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            total[name] = quantity
    return total


def container_amounts(container: Object, field: str) -> Amounts:
    return amounts((container.get("resources") or {}).get(field))


def containers(spec: Object) -> Iterable[Object]:
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def _raise_to_maximum(total: Amounts, lower_bounds: Mapping[str, Quantity]) -> None:
    for name, quantity in lower_bounds.items():
        if name not in total or quantity > total[name]:
            total[name] = quantity
