"""The boundary of a pod whose program is a task of this process: which files, variables, programs and addresses are its own.

The node runtime says `confined` around a program's task, and every task that the program starts inherits it. What is asked for
below (files, variables, connections, listening sockets, credential plug-ins) looks for the boundary itself, so code that knows
nothing of pods stays inside too. Where there is no boundary, this is an ordinary process and all of it is the machine's.
"""

from muster.machinery.confinement.boundary import (
    Confinement,
    CredentialProgram,
    Network,
    Nowhere,
    Outside,
    ProgramFailed,
    confined,
    current,
    environ,
    host_name,
    unconfined,
)
from muster.machinery.confinement.files import located, own, read, shown, sibling_path, temporary_directory
from muster.machinery.confinement.network import check_dial, is_guarded, listening, may_listen

__all__ = [
    "Confinement",
    "CredentialProgram",
    "Network",
    "Nowhere",
    "Outside",
    "ProgramFailed",
    "check_dial",
    "confined",
    "current",
    "environ",
    "host_name",
    "is_guarded",
    "listening",
    "located",
    "may_listen",
    "own",
    "read",
    "shown",
    "sibling_path",
    "temporary_directory",
    "unconfined",
]
