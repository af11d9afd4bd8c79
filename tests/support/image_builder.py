"""Our image, built by its recipe and run, without a daemon and without a registry of images: buildah, as root, in a directory."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.peers import ROOT, own_program

IMAGE = "localhost/muster"
_BASE = "localhost/python"
_SECONDS = 420
_CERTIFICATES = Path("/etc/ssl/certs")
_SETTINGS = Path("/etc/pip.conf")


class ImageBuilder:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (directory / "registries.conf").write_text("unqualified-search-registries = []\n")
        (directory / "policy.json").write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}))

    def base(self) -> str:
        """The name by digest of an image that has Python and a shell."""
        container = self("from", *self._policy, "scratch").strip()
        self("add", "--quiet", container, str(own_program("image", "base")), "/")
        self("commit", "--quiet", "--rm", *self._policy, container, _BASE)
        return f"{_BASE}@{self('images', '--format', '{{.Digest}}', _BASE).strip()}"

    def build(self, base: str) -> None:
        where = ("-f", str(ROOT / "deploy/Containerfile"), "--ignorefile", str(ROOT / ".containerignore"))
        self(
            "bud",
            "--quiet",
            "--pull-never",
            *self._policy,
            *self._host(),
            *where,
            "--build-arg",
            f"PYTHON={base}",
            "-t",
            IMAGE,
            str(ROOT),
        )

    def config(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self("inspect", "--type", "image", IMAGE))["OCIv1"]["config"]
        return found

    def container(self) -> str:
        return self("from", "--pull-never", *self._policy, IMAGE).strip()

    def run(self, container: str, *command: str) -> str:
        """In the container, as the image's user."""
        return self("run", container, "--", *command)

    @property
    def _policy(self) -> Sequence[str]:
        return ("--signature-policy", str(self._directory / "policy.json"))

    @staticmethod
    def _host() -> list[str]:
        """What says how packages are fetched on this machine: the recipe has no opinion about it."""
        return [f"--volume={path}:{path}:ro" for path in (_CERTIFICATES, _SETTINGS) if path.exists()]

    def __call__(self, verb: str, *words: str) -> str:
        directory = self._directory
        place = (
            "--root",
            f"{directory}/storage",
            "--runroot",
            f"{directory}/state",
            "--registries-conf",
            f"{directory}/registries.conf",
        )
        done = subprocess.run(
            ["buildah", *place, "--storage-driver", "overlay", verb, *words],
            cwd=self._directory,
            env={**os.environ, "BUILDAH_ISOLATION": "chroot", "TMPDIR": str(self._directory)},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"buildah {verb} {words}\n{done.stdout}\n{done.stderr}"
        return done.stdout
