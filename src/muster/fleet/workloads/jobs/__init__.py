"""Jobs: pods that run to completion, a given number of times. Follows Kubernetes' pkg/controller/job."""

from muster.fleet.workloads.jobs.controller import Jobs
from muster.fleet.workloads.jobs.orphans import JobOrphans

__all__ = ["JobOrphans", "Jobs"]
