"""What is said of a memory or an item beside its content: times, provenance, quality."""
