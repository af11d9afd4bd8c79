"""xdist's scheduling by files, for suites in which a test may end its worker.

After a crash xdist gives the files of that worker to others, but: with the test that crashed, which then ends worker after worker
until no new one is made and the tests behind it are lost; with files that are done; and file by file, though a worker begins a test
only when it knows of a next one. Who is given a single test, or none, waits for ever. Invariants here: a test runs once, and if it
ends its worker, that is how it ended; a worker that has been given work begins it.
"""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class CrashProofScheduling(LoadFileScheduling):
    def remove_node(self, node: WorkerController) -> str | None:
        """Give away what a worker has still to do; returns the test that ended it, if one did."""
        work = self.assigned_work.pop(node)
        running = next(((scope, name) for scope, unit in work.items() for name, done in unit.items() if not done), None)
        if running is None:
            return None
        scope, crashed = running
        work[scope][crashed] = True
        self.workqueue.update({scope: unit for scope, unit in work.items() if not all(unit.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed

    def _reschedule(self, node: WorkerController) -> None:
        super()._reschedule(node)
        while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            self._assign_work_unit(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        try:
            super()._assign_work_unit(node)
        except OSError:
            # It has ended and nobody has noticed yet. The unit is noted as its own by now, so `remove_node` gives it away.
            return
