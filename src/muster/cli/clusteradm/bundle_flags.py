"""Flags of the installed bundle, which several commands share: image, namespace, pull secret, resources, feature gates.

`installing` adds these flags to a command; the other functions evaluate them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from muster.cli.console import echo
from muster.cli.values import Pairs

if TYPE_CHECKING:
    from muster.api.operator.v1 import ResourceRequirement
    from muster.operator.bundle import BundleOptions

REGISTRY = "quay.io/open-cluster-management"
F = TypeVar("F", bound=Callable[..., Any])

_IMAGES = (
    click.option(
        "--image-registry",
        "registry",
        default=REGISTRY,
        show_default=True,
        help="Registry of the images; with OCM's own registry, image names have no registry prefix.",
    ),
    click.option(
        "--bundle-version", "version", default="default", show_default=True, help="Version of the images, which is their tag."
    ),
    click.option(
        "--bundle-version-overrides",
        "overrides",
        type=click.Path(dir_okay=False),
        help="File whose key ocm overrides the version of the images.",
    ),
)
_INSTALLED = (
    click.option(
        "--create-namespace",
        type=bool,
        default=True,
        show_default=True,
        help="Create the operator's namespace if it does not exist.",
    ),
    click.option(
        "--image-pull-credential-file",
        "credential",
        type=click.Path(dir_okay=False),
        help="Docker config.json with credentials for pulling the images.",
    ),
    click.option(
        "--resource-qos-class",
        "qos",
        type=click.Choice(["Default", "BestEffort", "ResourceRequirement"]),
        default="Default",
        show_default=True,
        help="Quality-of-service class of all pods.",
    ),
    click.option(
        "--resource-limits",
        "limits",
        type=Pairs(),
        multiple=True,
        help="Resource limits of all containers, such as cpu=1,memory=1Gi.",
    ),
    click.option(
        "--resource-requests",
        "requests",
        type=Pairs(),
        multiple=True,
        help="Resource requests of all containers, such as cpu=100m,memory=128Mi.",
    ),
    click.option(
        "--feature-gates",
        "gates",
        type=Pairs(),
        multiple=True,
        help="Comma-separated Gate=true|false pairs for the installed components.",
    ),
)


def versioned(command: F) -> F:
    """Add the flags that select an image to a command."""
    for option in reversed(_IMAGES):
        command = option(command)
    return command


def installing(command: F) -> F:
    for option in reversed(_INSTALLED):
        command = option(command)
    return versioned(command)


def version_of(given: dict[str, Any]) -> str:
    from muster.administration.images import overridden_version

    return overridden_version(Path(given["overrides"])) if given["overrides"] else str(given["version"])


def image_of(given: dict[str, Any]) -> str:
    from muster.administration.images import ImageChoice

    return ImageChoice(given["registry"], version_of(given)).image()


def bundle_of(given: dict[str, Any], *args: str) -> BundleOptions:
    """`args` are further flags of the operator."""
    from muster.administration.images import read_credential
    from muster.operator.bundle import BundleOptions

    return BundleOptions(
        image=image_of(given),
        create_namespace=given["create_namespace"],
        resources=resources_of(given),
        pull_credential=read_credential(Path(given["credential"])) if given["credential"] else b"",
        args=args,
    )


def flat(given: tuple[tuple[Any, ...], ...]) -> tuple[Any, ...]:
    """All values of a repeatable flag."""
    return tuple(value for values in given for value in values)


def gates_of(given: dict[str, Any]) -> dict[str, bool]:
    return dict(_gate(*pair) for pair in flat(given["gates"]))


def _gate(name: str, value: str) -> tuple[str, bool]:
    if value.lower() not in ("true", "false"):
        raise click.BadParameter(f"{name}={value}: a gate is true or false", param_hint="--feature-gates")
    return name, value.lower() == "true"


def resources_of(given: dict[str, Any]) -> ResourceRequirement | None:
    from muster.api.meta import ResourceRequirements
    from muster.api.operator.v1 import ResourceRequirement
    from muster.machinery.golang.quantities import QuantityError, parse_quantity

    amounts = {flag: dict(flat(given[flag])) for flag in ("limits", "requests")}
    for flag, pairs in amounts.items():
        for name, value in pairs.items():
            try:
                parse_quantity(value)
            except QuantityError as error:
                raise click.BadParameter(f"{name}={value}: {error}", param_hint=f"--resource-{flag}") from None
    if given["qos"] != "ResourceRequirement":
        if any(amounts.values()):
            raise click.UsageError("--resource-limits and --resource-requests need --resource-qos-class=ResourceRequirement")
        return ResourceRequirement(type=given["qos"]) if given["qos"] != "Default" else None
    wanted = ResourceRequirements(limits=amounts["limits"], requests=amounts["requests"])
    return ResourceRequirement(type=given["qos"], resource_requirements=wanted)


def report_flags() -> None:
    """Print the given flags, as upstream's clusteradm."""
    context = click.get_current_context()
    for parameter in context.command.params:
        if parameter.name and context.get_parameter_source(parameter.name) is click.core.ParameterSource.COMMANDLINE:
            echo(f"flag {parameter.opts[0].lstrip('-')} has been set", err=True)
