"""The ledger's independent verifier: it shares no code with the worker that writes the ledger.

It needs nothing but Python, and knows the record layout in its own words (`kinds.py`). An auditor can copy
this folder out of the tree and run it over an export: `python -m verifier ledger.jsonl`.

What it proves, and what a bare chain cannot see, is said in `docs/ledger.md`.
"""
