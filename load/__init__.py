"""Benchmarks, fault runs and attacks: programs that print figures."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""
