"""The node runtime of embedded clusters: pods of Muster's own image run as supervised tasks of this process.

What it offers: `NodeRuntime`, and to those who write programs for it `Program`, `Programs` and `PodEnvironment`.
"""

from muster.fleet.node.environment import PodEnvironment
from muster.fleet.node.programs import Program, Programs
from muster.fleet.node.runtime import NodeRuntime

__all__ = ["NodeRuntime", "PodEnvironment", "Program", "Programs"]
