"""A session's bounds as the settings give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.limits import SessionLimits

if TYPE_CHECKING:
    from app.settings import SessionSettings


def session_limits(session: SessionSettings) -> SessionLimits:
    """In ms, as the core takes them."""
    return SessionLimits(
        action_window_ms=int(session.action_window_s * 1000),
        idle_timeout_ms=int(session.idle_timeout_s * 1000),
        max_recent_actions=session.max_recent_actions,
        max_early_outcomes=session.max_early_outcomes,
        max_tenants=session.max_tenants,
    )
