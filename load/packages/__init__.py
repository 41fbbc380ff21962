"""Audit packages of made ledgers, and what an attacker would do to one."""
