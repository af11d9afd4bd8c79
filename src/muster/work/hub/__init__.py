"""The hub's side of works: authorization of writers, replica sets, and deletion of completed works."""
