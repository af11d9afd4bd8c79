"""Ordered, revisioned object log behind one interface (`api.Store`): memory, SQLite, PostgreSQL."""
