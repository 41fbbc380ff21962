"""Decisions executed again, and sessions recounted, from the ledger."""
