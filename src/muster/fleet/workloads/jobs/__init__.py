"""Jobs: pods that run to completion, as often as asked. Follows Kubernetes' pkg/controller/job."""

from muster.fleet.workloads.jobs.controller import Jobs
from muster.fleet.workloads.jobs.orphans import JobOrphans

__all__ = ["JobOrphans", "Jobs"]
