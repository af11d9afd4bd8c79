"""Errors of administration. Every message says what is wrong; `remedy` says what to do about it."""

from __future__ import annotations


class AdministrationError(Exception):
    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.message = message
        self.remedy = remedy


class Refused(AdministrationError):
    """The action is possible but would do harm."""


class NotAHub(AdministrationError):
    def __init__(self, server: str) -> None:
        super().__init__(
            "hub oriented command should not running against non-hub cluster",
            f"{server} serves no ManagedClusters: choose the hub with --context or --kubeconfig, or run init there first",
        )
        self.server = server


class TookTooLong(AdministrationError):
    """A wait has timed out; `reason` is why the condition was not met at the end."""

    def __init__(self, what: str, reason: str, seconds: float) -> None:
        super().__init__(f"{what}: not so after {seconds:g} s: {reason}", "wait longer with --timeout, or run doctor")
        self.what = what
        self.reason = reason
