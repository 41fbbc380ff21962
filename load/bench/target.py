"""Where the result of a run lies."""

from app.settings import ROOT

WORK = ROOT / "build" / "bench"
TARGET = ROOT / "build" / "bench.json"
