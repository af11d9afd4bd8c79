"""The placement controller on a hub: calls `scheduler.schedule` with data from caches, and writes the result.

`manager` assembles the process, `controller` reconciles. `inventory` indexes the caches, with `decision_index` and `interests`;
`desired_status` and `decision_plan` compute, as pure functions, the desired objects and the writes towards them, `decision_writer`
executes these. `debug_server` explains results, `measurements` has metrics, `install` the permissions.
"""
