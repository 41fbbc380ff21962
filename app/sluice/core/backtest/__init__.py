"""A candidate policy over the ledger: every input decided again, and what comes of it."""
