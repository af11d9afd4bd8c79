"""The image of an operator and its components, by OCM's flags.

OCM's own registry and the bundle version `default` stand for Muster's image of this version, because those are the flags' defaults.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from muster.administration.errors import AdministrationError
from muster.kube import yaml
from muster.machinery.oserrors import explain_file_error
from muster.operator.names import UPSTREAM_IMAGES, image

REGISTRY: Final = UPSTREAM_IMAGES.rstrip("/")
BUNDLE: Final = "default"


@dataclass(frozen=True)
class ImageChoice:
    registry: str = REGISTRY
    version: str = BUNDLE

    def image(self) -> str:
        if not self.registry:
            raise AdministrationError("--image-registry: registry should not be empty")
        registry = "" if self.registry.rstrip("/") == REGISTRY else self.registry
        return image(registry, "" if self.version == BUNDLE else self.version)


def overridden_version(path: Path) -> str:
    """`--bundle-version-overrides`: a file with the version of each bundle; ours is `ocm`."""
    content = read_mapping(path, "--bundle-version-overrides")
    found = content.get("ocm")
    if not isinstance(found, str) or not found:
        raise AdministrationError(f"--bundle-version-overrides {path}: ocm: expected a version")
    return found


def read_mapping(path: Path, flag: str) -> dict[str, Any]:
    """A YAML or JSON file with one mapping."""
    try:
        content = yaml.load(path.read_bytes())
    except OSError as error:
        raise AdministrationError(f"{flag} {path}: {explain_file_error(error)}") from None
    except yaml.YAMLError as error:
        raise AdministrationError(f"{flag} {path}: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise AdministrationError(f"{flag} {path}: expected a map")
    return content


def read_credential(path: Path) -> bytes:
    """`--image-pull-credential-file`: a docker config.json."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise AdministrationError(f"--image-pull-credential-file {path}: {explain_file_error(error)}") from None
    try:
        document = yaml.load(content)
    except yaml.YAMLError:
        document = None
    if not isinstance(document, Mapping) or not isinstance(document.get("auths"), Mapping):
        raise AdministrationError(f"--image-pull-credential-file {path}: auths: expected a docker config.json")
    return content


def decoded_credential(text: str) -> bytes:
    """The credential in chart values, in base64."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AdministrationError("images.imageCredentials.dockerConfigJson: not base64") from None
