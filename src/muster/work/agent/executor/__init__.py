"""What an executor may: reviews of access, permissions that are watched, and the escalation of roles."""

from muster.work.agent.executor.gate import ExecutorGate, ExecutorOptions

__all__ = ["ExecutorGate", "ExecutorOptions"]
