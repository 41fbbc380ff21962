"""Retrieved items: freshness, confidence, provenance, and what the ledger says of them. No I/O."""
