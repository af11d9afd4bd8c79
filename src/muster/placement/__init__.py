"""Placement: which clusters a Placement chooses, and in which order a change reaches those that were chosen.

Choosing is a pure function (`scheduling.schedule`) of a placement and of the world it sees (`world.World`); the controller (`hub`)
only feeds it and writes what it answers. Rollouts (`rollout.plan`) stand on the decisions that were written, whoever wrote them.
"""
