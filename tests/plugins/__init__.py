"""Distributions that bring something of their own to Muster; tests install them as anybody would."""

import shutil
import subprocess
import sys
from pathlib import Path


def install(plugin: str, target: Path) -> None:
    """Build one of these from its source and put it into `target`, where PYTHONPATH finds it."""
    # Copied first: a build leaves traces in the source tree.
    source = target.parent / f"{plugin}-source"
    shutil.copytree(Path(__file__).parent / plugin, source, ignore=shutil.ignore_patterns("__pycache__"))
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    command = [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--python", sys.executable, "--target", str(target), str(source)], capture_output=True, text=True, timeout=100
    )
    if done.returncode:
        raise RuntimeError(f"installing {plugin} failed: {done.stderr}")
