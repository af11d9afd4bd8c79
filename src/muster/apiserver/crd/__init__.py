"""CustomResourceDefinitions: judging them, turning them into served rows, converting and naming their resources.

`definition` says whether a definition may be stored, `naming` which of its names are accepted, `compiled` makes the registry rows
the request pipeline serves, and `conversion` moves objects between versions. Everything here is pure or asks the outside through a
callback; watching definitions and cleaning up after them is the controller's work.
"""
