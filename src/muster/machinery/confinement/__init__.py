"""The confinement of a pod that runs as a task of this process: its own files, variables, programs and addresses.

The node runtime enters `confined` around a program's task, and every task that the program starts inherits it. Functions for files,
variables, connections, listening sockets and exec plugins use the current confinement themselves, so code that is unaware of pods
is confined too. Without a confinement, this is an ordinary process with all of the machine.
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
