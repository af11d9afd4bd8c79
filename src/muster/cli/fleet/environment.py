"""`muster env`: prints the variables with which kubectl, clusteradm and muster use the fleet.

Values are quoted for the shell that evaluates them, so a directory may have blanks or quotes in its name.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from muster.fleet.local.directory import FleetDirectory

DATA_DIR_VARIABLE: Final = "MUSTER_DATA_DIR"
SHELLS: Final = ("bash", "zsh", "fish")
TOOLS: Final = ("muster", "clusteradm", "kubectl")


def shell_of(environ: Mapping[str, str]) -> str:
    """The user's shell if its syntax is supported, else bash, whose syntax most others share."""
    name = Path(environ.get("SHELL", "")).name
    return name if name in SHELLS else SHELLS[0]


def missing_tools() -> Path | None:
    """The directory of our programs, if the shell does not find all of them on its PATH."""
    tools = Path(sys.executable).parent
    return tools if any(shutil.which(tool) is None and (tools / tool).exists() for tool in TOOLS) else None


def variables(directory: FleetDirectory) -> dict[str, str]:
    """Absolute paths, so that they are valid in every directory. Raises NoFleet if there is none."""
    fleet = directory.existing()
    found = {DATA_DIR_VARIABLE: str(directory.path.absolute()), "KUBECONFIG": str(directory.kubeconfig.absolute())}
    if fleet.aws_port:
        from muster.fleet.local.cloud import PROFILES, ca_file, config_file
        from muster.fleet.local.fleet import HOST

        found |= {
            "AWS_ENDPOINT_URL": f"https://{HOST}:{fleet.aws_port}",
            "AWS_CONFIG_FILE": str(config_file(directory).absolute()),
            "AWS_PROFILE": next(iter(PROFILES)),
            "AWS_CA_BUNDLE": str(ca_file(directory).absolute()),
        }
    return found


def exports(found: Mapping[str, str], shell: str, tools: Path | None = None) -> list[str]:
    lines = [_export(name, value, shell) for name, value in found.items()]
    if tools is not None:
        path = str(tools)
        lines.append(f"set -gx PATH {_fish(path)} $PATH;" if shell == "fish" else f'export PATH={shlex.quote(path)}:"$PATH"')
    return lines


def removals(names: Mapping[str, str], shell: str) -> list[str]:
    return [f"set -e {name};" if shell == "fish" else f"unset {name}" for name in names]


def how_to_evaluate(shell: str) -> str:
    return "# Evaluate it: muster env --shell fish | source" if shell == "fish" else '# Evaluate it: eval "$(muster env)"'


def _export(name: str, value: str, shell: str) -> str:
    return f"set -gx {name} {_fish(value)};" if shell == "fish" else f"export {name}={shlex.quote(value)}"


def _fish(value: str) -> str:
    """In single quotes fish has two escapes: of the backslash and of the quote."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
