"""What the ledger alone tells: the quality report, the memory gate's statistics."""
