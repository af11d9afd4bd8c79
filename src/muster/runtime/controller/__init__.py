"""Controllers with their work queue, leader election, events, conditions and finalizers."""

from muster.runtime.controller.conditions import set_condition, with_condition
from muster.runtime.controller.context import ControllerContext
from muster.runtime.controller.controller import Controller, Stop
from muster.runtime.controller.events import EventRecorder, object_reference
from muster.runtime.controller.fan_out import WriteOne, failures_text, write_each
from muster.runtime.controller.finalizers import (
    add_finalizer,
    has_finalizer,
    removal_patch,
    remove_finalizer,
    with_finalizer,
    without_finalizer,
)
from muster.runtime.controller.leader_election import LeaderElection, LeadershipLost, leader_identity
from muster.runtime.controller.manager import Manager, Runnable, RunnableFunc, make_controllers

__all__ = [
    "Controller",
    "ControllerContext",
    "EventRecorder",
    "LeaderElection",
    "LeadershipLost",
    "Manager",
    "Runnable",
    "RunnableFunc",
    "Stop",
    "WriteOne",
    "add_finalizer",
    "failures_text",
    "has_finalizer",
    "leader_identity",
    "make_controllers",
    "object_reference",
    "removal_patch",
    "remove_finalizer",
    "set_condition",
    "with_condition",
    "with_finalizer",
    "without_finalizer",
    "write_each",
]
