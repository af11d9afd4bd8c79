"""The agent that makes a managed cluster agree with its works.

A pass over one work (`reconcile`) reads what it says (`planning`), asks whether its executor may (`executor/`), applies what is
missing or has drifted (`applying/`), and reports (`reporting/`). What was applied is followed by a few watches
(`runtime.cache.dynamic`), so a pass over a work that is as it should be costs no request, and drift is noticed when it happens.
The parts meet in `seam` only.
"""
