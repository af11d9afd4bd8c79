"""CustomResourceDefinitions: their validation, accepted names, served resources, and the conversion between versions.

`definition` validates a definition, `accepted_names` decides which of its names are accepted, `compiled` makes the rows of the
registry that the request pipeline serves, and `converters` convert objects between versions. Everything here is pure or makes calls
through a callback; watching definitions and cleaning up after them is the work of the controller (`controllers.crds`).
"""
