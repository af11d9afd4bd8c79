"""The hub's side of the transport: authentication, authorization, subscriptions, and the process."""
