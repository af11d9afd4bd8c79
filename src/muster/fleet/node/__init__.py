"""The node runtime: pods of Muster's own image run as supervised tasks of this process.

It offers `NodeRuntime` for clusters of an API server in this process, `RemoteNode` for a cluster that is reached by a client, and
`Program`, `Programs` and `PodEnvironment` to authors of programs.
"""

from muster.fleet.node.environment import PodEnvironment
from muster.fleet.node.programs import Program, Programs
from muster.fleet.node.remote import RemoteNode
from muster.fleet.node.runtime import NodeRuntime

__all__ = ["NodeRuntime", "PodEnvironment", "Program", "Programs", "RemoteNode"]
