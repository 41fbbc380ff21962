"""A bundle's own cases, run."""
