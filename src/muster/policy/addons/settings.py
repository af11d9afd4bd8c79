"""Settings of the policy controller of one cluster. Names and defaults are those of OCM's policy addons.

There are three sources, of which a later one has precedence: annotations of the ManagedClusterAddOn, chart values in its
annotation `addon.open-cluster-management.io/values`, and variables of the AddOnDeploymentConfig. An invalid value has no effect
and is reported in a warning: a typo in a log level must not stop the policies of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.addon.agent_addon import Installation
from muster.addon.values import annotation_values
from muster.api.addon.v1alpha1 import AddOnDeploymentConfigSpec
from muster.kube.names import dns1123_label, dns1123_subdomain
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.numbers import parse_bool
from muster.machinery.printable import one_line

ENCODERS: Final = ("console", "json")
TLS_VERSIONS: Final = ("VersionTLS12", "VersionTLS13")
OPENSHIFT_LABEL: Final = "openshiftVersion-major"
_MAX_QUOTED_LENGTH: Final = 80
"""Characters of an invalid value that a warning quotes."""


@dataclass(frozen=True)
class ControllerSettings:
    log_level: int = 0
    """-1 logs errors only."""
    package_log_level: int = 0
    log_encoder: str = "console"
    concurrency: int = 2
    client_qps: int = 30
    client_burst: int = 45
    tls_min_version: str = ""
    tls_cipher_suites: str = ""
    operator_policies: bool = True
    operator_namespace: str = ""
    """Default namespace of Subscriptions."""
    metrics: bool = False
    """Whether other pods can read the metrics."""
    managed_kubeconfig: str = ""
    """In hosted mode, the Secret with the kubeconfig of the managed cluster."""
    image: str = ""
    """The image, if not Muster's."""
    warnings: tuple[str, ...] = ()


class _InvalidValue(Exception):
    """The expected value."""


@dataclass(frozen=True)
class _Setting:
    """A setting and its name in each source; empty if that source does not have it."""

    field: str
    read: Callable[[str], Any]
    annotation: str = ""
    value: str = ""
    """Path in the chart values."""
    variable: str = ""


def _number(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        digits = text.removeprefix("-")
        if not digits.isascii() or not digits.isdigit() or len(digits) > 9 or not least <= int(text) <= most:
            raise _InvalidValue(f"a number from {least} to {most}")
        return int(text)

    return read


def _level(text: str) -> int:
    try:
        return -1 if text == "error" else _number(-1, 127)(text)
    except _InvalidValue as error:
        raise _InvalidValue(f"error, or {error}") from None


def _bool(text: str) -> bool:
    try:
        return parse_bool(text)
    except GoError:
        raise _InvalidValue("true or false") from None


def _not(text: str) -> bool:
    return not _bool(text)


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise _InvalidValue(" or ".join(words))
        return text

    return read


def _words(text: str) -> str:
    if not text or any(not one.replace("_", "").isalnum() or not one.isascii() for one in text.split(",")):
        raise _InvalidValue("names with commas between them")
    return text


def _named(problems: Callable[[str], list[str]], what: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if problems(text):
            raise _InvalidValue(what)
        return text

    return read


def _image(text: str) -> str:
    if not text or any(character.isspace() for character in text):
        raise _InvalidValue("an image")
    return text


_SETTINGS: Final = (
    _Setting("log_level", _level, "log-level", "logLevel", "logLevel"),
    _Setting("log_encoder", _one_of(*ENCODERS), "", "logEncoder", "logEncoder"),
    _Setting("concurrency", _number(1, 255), "policy-evaluation-concurrency", "evaluationConcurrency", "evaluationConcurrency"),
    _Setting("client_qps", _number(1, 10000), "client-qps", "clientQPS", "clientQPS"),
    _Setting("client_burst", _number(1, 10000), "client-burst", "clientBurst", "clientBurst"),
    _Setting("metrics", _bool, "prometheus-metrics-enabled", "prometheus.enabled", "prometheusEnabled"),
    _Setting("operator_policies", _not, "operator-policy-disabled", "operatorPolicy.disabled", "operatorPolicyDisabled"),
    _Setting("operator_namespace", _named(dns1123_label, "a namespace"), "", "operatorPolicy.defaultNamespace"),
    _Setting("tls_min_version", _one_of(*TLS_VERSIONS), "", "tlsMinVersion", "tlsMinVersion"),
    _Setting("tls_cipher_suites", _words, "", "tlsCipherSuites", "tlsCipherSuites"),
    _Setting(
        "managed_kubeconfig",
        _named(dns1123_subdomain, "the name of a Secret"),
        "",
        "managedKubeConfigSecret",
        "managedKubeConfigSecret",
    ),
    _Setting("image", _image, "", "global.imageOverrides.config_policy_controller"),
)


def read_settings(installation: Installation, config: AddOnDeploymentConfigSpec) -> ControllerSettings:
    """Raises AddonError if the annotation with chart values is not a JSON object."""
    found: dict[str, Any] = {}
    if installation.cluster.metadata.labels.get(OPENSHIFT_LABEL) == "4":
        found["operator_namespace"] = "openshift-operators"
    warnings = []
    for setting, where, text in _values(installation, config):
        try:
            found[setting.field] = setting.read(text)
        except _InvalidValue as expected:
            warnings.append(f"{where}: {one_line(text)[:_MAX_QUOTED_LENGTH]!r} has no effect: expected {expected}")
    if "log_level" in found:
        found["package_log_level"] = found["log_level"] - 2
    if "concurrency" in found:
        found.setdefault("client_burst", found["concurrency"] * 22 + 1)
    warnings += _unknown(installation, config)
    return ControllerSettings(**found, warnings=tuple(warnings))


def _values(installation: Installation, config: AddOnDeploymentConfigSpec) -> Iterator[tuple[_Setting, str, str]]:
    """Settings with their source, in order of precedence."""
    annotations = installation.addon.metadata.annotations
    for setting in _SETTINGS:
        if setting.annotation in annotations:
            yield setting, f"annotation {setting.annotation}", annotations[setting.annotation]
    values = _flat(annotation_values(installation))
    for setting in _SETTINGS:
        if setting.value in values:
            yield setting, f"value {setting.value}", values[setting.value]
    by_variable = {setting.variable: setting for setting in _SETTINGS if setting.variable}
    for variable in config.customized_variables:
        if variable.name in by_variable:
            yield by_variable[variable.name], f"AddOnDeploymentConfig: variable {variable.name}", variable.value


def _unknown(installation: Installation, config: AddOnDeploymentConfigSpec) -> Iterator[str]:
    known = {setting.value for setting in _SETTINGS}
    for path in _flat(annotation_values(installation)):
        if path not in known:
            yield f"value {one_line(path)[:_MAX_QUOTED_LENGTH]} has no effect"
    variables = {setting.variable for setting in _SETTINGS}
    for variable in config.customized_variables:
        if variable.name not in variables:
            yield f"AddOnDeploymentConfig: variable {variable.name} has no effect"


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Chart values by their path, as strings."""
    found: dict[str, str] = {}
    for name, value in values.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            found |= _flat(value, f"{path}.")
        elif isinstance(value, bool):
            found[path] = str(value).lower()
        else:
            found[path] = str(value)
    return found
