"""Placement: the clusters that a Placement selects, and the order in which a change is rolled out to them.

Selection is a pure function (`scheduler.schedule`) of a placement and a snapshot (`snapshot.PlacementSnapshot`); the controller
(`hub`) provides the snapshot and writes the result. Rollouts (`rollout.plan`) use the written decisions, of any writer.
"""
