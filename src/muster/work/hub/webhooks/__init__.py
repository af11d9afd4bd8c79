"""Admission of works: their content, and the authorization of their executors."""
