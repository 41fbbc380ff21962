"""Faults of the core. A denial is never one of these: it is a value."""

from __future__ import annotations


class CoreError(Exception):
    """Base of all: the core cannot use a value that it got."""


class BundleError(CoreError):
    """A bundle is refused whole; the message starts with the path inside it."""


class RegistryError(CoreError):
    """A registry is refused whole; the message starts with the path inside it."""


class EnvelopeError(CoreError):
    """The text is not an envelope to which a signature can be added; the message starts with the path inside
    it."""


class UnknownStageError(CoreError):
    """A bundle names a stage that does not exist; the message names it and those that do."""


class CanonicalError(CoreError):
    """A value has no canonical JSON form (NaN, an integer beyond 2^53-1, a key that is not a string)."""
