"""Distributions that bring something of their own to Muster; tests install them as anybody would."""

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent


def install(plugin: str, target: Path) -> None:
    """Build one of these from its source and put it into `target`, where PYTHONPATH finds it."""
    # Copied first: a build leaves traces in the source tree.
    source = target.parent / f"{plugin}-source"
    shutil.copytree(HERE / plugin, source, ignore=shutil.ignore_patterns("__pycache__"))
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    command = [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--python", sys.executable, "--target", str(target), str(source)], capture_output=True, text=True, timeout=100
    )
    if done.returncode:
        raise RuntimeError(f"installing {plugin} failed: {done.stderr}")


def lay_out(plugin: str, target: Path) -> None:
    """What `install` would leave in `target`, without a build."""
    project = tomllib.loads((HERE / plugin / "pyproject.toml").read_text())["project"]
    name = project["name"].replace("-", "_")
    info = target / f"{name}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    shutil.copy(HERE / plugin / f"{name}.py", target)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = ((group, points.items()) for group, points in project["entry-points"].items())
    lines = (line for group, points in groups for line in (f"[{group}]", *(f"{key} = {value}" for key, value in points), ""))
    (info / "entry_points.txt").write_text("\n".join(lines))


@contextmanager
def present(plugin: str, site: Path) -> Iterator[Path]:
    """One of these is installed for this process, in a directory that others can have in their PYTHONPATH."""
    lay_out(plugin, site)
    sys.path.insert(0, str(site))
    try:
        yield site
    finally:
        sys.path.remove(str(site))
        for name in [name for name, module in sys.modules.items() if str(site) in str(getattr(module, "__file__", ""))]:
            del sys.modules[name]
