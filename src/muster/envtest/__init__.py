"""For tests and programs of other projects: a whole fleet in this process (`Fleet`), and fixtures for pytest (`fixtures.py`)."""

from muster.envtest.fleet import Fleet, FleetNotReady

__all__ = ["Fleet", "FleetNotReady"]
