"""The events by which a session changes: a decision returns them, and the session's owner applies them.

Each is small, whatever the session remembers: it says what is, not by how much it differs. Applied in their
order, in place, they leave the session as the view on which the decision was made had it
(sluice/core/state/session_view.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.state.remembered import TIMED, UNTIMED, Remembered, Table
from sluice.core.state.session import Account

if TYPE_CHECKING:
    from sluice.core.state.session import EarlyOutcome, SessionState


class Restarted(NamedTuple):
    """The session was idle too long: every account is gone. Outcomes that wait stay."""

    def apply(self, state: SessionState) -> None:
        """Forget the accounts."""
        for tenant, account in state.accounts.items():
            for agent, memory in account.agents.items():
                for entry in memory.names((*TIMED, *UNTIMED)):
                    state.pages.drop((tenant, agent, *entry))
            for offset in account.disputed:
                state.pages.drop((tenant, "", "disputed", offset))
        state.accounts = {}


class Counted(NamedTuple):
    """A tenant's totals are these; its account opens where there is none."""

    tenant: str
    rows: int
    actions: int

    def apply(self, state: SessionState) -> None:
        """Open the account, or set its totals."""
        account = state.accounts.get(self.tenant)
        if account is None:
            state.accounts[self.tenant] = Account(self.rows, self.actions)
        else:
            account.rows, account.actions = self.rows, self.actions


class EntryKept(NamedTuple):
    """An agent's memory has this entry: in its place where there is one of the name, else as the newest."""

    tenant: str
    agent: str
    table: Table
    name: str
    stored: Any

    def apply(self, state: SessionState) -> None:
        """Put it into the table; the agent's memory opens with its first entry."""
        agents = state.accounts[self.tenant].agents
        memory = agents.get(self.agent)
        if memory is None:
            memory = agents[self.agent] = Remembered()
        memory.put(self.table, self.name, self.stored)
        state.pages.put(self[:4], self.stored)


class EntryDropped(NamedTuple):
    """An agent's memory no longer has this entry."""

    tenant: str
    agent: str
    table: Table
    name: str

    def apply(self, state: SessionState) -> None:
        """Take it out of the table."""
        state.accounts[self.tenant].agents[self.agent].drop(self.table, self.name)
        state.pages.drop(self)


class AgentExpired(NamedTuple):
    """All that an agent's memory has with a time is over, if it has one."""

    tenant: str
    agent: str

    def apply(self, state: SessionState) -> None:
        """Keep what has no time, and the agent only where there is some."""
        agents = state.accounts[self.tenant].agents
        memory = agents.get(self.agent)
        if memory is None:
            return
        for entry in memory.names((*TIMED, "gates")):
            state.pages.drop((self.tenant, self.agent, *entry))
        left = memory.lasting()
        if left is not None:
            agents[self.agent] = left
        else:
            del agents[self.agent]


class DisputeOpened(NamedTuple):
    """An action's outcome is disputed: the action's id, its agent and the stored RecentAction, by its
    offset."""

    tenant: str
    offset: str
    stored: tuple[Any, ...]

    def apply(self, state: SessionState) -> None:
        """Keep it until a signed outcome settles it."""
        state.accounts[self.tenant].put_dispute(self.offset, self.stored)
        state.pages.put((self.tenant, "", "disputed", self.offset), self.stored)


class DisputeEnded(NamedTuple):
    """A signed outcome has settled the action of this offset."""

    tenant: str
    offset: str

    def apply(self, state: SessionState) -> None:
        """Dispute it no longer."""
        state.accounts[self.tenant].end_dispute(self.offset)
        state.pages.drop((self.tenant, "", "disputed", self.offset))


class OutcomeWaits(NamedTuple):
    """An outcome came before its action."""

    outcome: EarlyOutcome

    def apply(self, state: SessionState) -> None:
        """Let it wait, after the others."""
        state.early[self.outcome.place] = self.outcome
        state.pages.put(("", "", "early", str(self.outcome.place)), [*self.outcome])


class OutcomeAnswered(NamedTuple):
    """An outcome waits no longer: its action came, or its time is over. `place`: its own offset."""

    place: int

    def apply(self, state: SessionState) -> None:
        """Let it go."""
        del state.early[self.place]
        state.pages.drop(("", "", "early", str(self.place)))


class Moved(NamedTuple):
    """The session's times, ms: when it opened, its last input, and when time does something to it next."""

    opened_at: int
    last_at: int
    due_ms: int

    def apply(self, state: SessionState) -> None:
        """Set them."""
        state.opened_at, state.last_at, state.due_ms = self


SessionChange = (
    Restarted
    | Counted
    | EntryKept
    | EntryDropped
    | AgentExpired
    | DisputeOpened
    | DisputeEnded
    | OutcomeWaits
    | OutcomeAnswered
    | Moved
)
