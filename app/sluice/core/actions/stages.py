"""The gates that ship: the one place where they are listed. docs/adding-a-gate.md says how one is added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.core.actions.action_similarity import ActionSimilarity
from sluice.core.actions.authority import Controls, TierAuth, TopologyCheck
from sluice.core.actions.causal import Causal
from sluice.core.actions.consequence import ConsequenceScore
from sluice.core.actions.destinations import Destinations
from sluice.core.actions.fast_reject import FastReject
from sluice.core.actions.grader import Grader
from sluice.core.actions.inbound import Inbound
from sluice.core.actions.limits import Limits
from sluice.core.actions.mandate import MandateGate
from sluice.core.actions.outbound import Outbound
from sluice.core.actions.policies import Policies
from sluice.core.actions.rules import Rules
from sluice.core.actions.sequence import SequenceGate
from sluice.core.policy.bundles import BundleForm

if TYPE_CHECKING:
    from sluice.core.actions.stage import Gate, Stage
    from sluice.core.policy.bundles import Bundle

GATES: tuple[Gate, ...] = (
    Controls(),
    Limits(),
    Inbound(),
    Outbound(),
    FastReject(),
    Rules(),
    ActionSimilarity(),
    ConsequenceScore(),
    Causal(),
    TopologyCheck(),
    SequenceGate(),
    Destinations(),
    MandateGate(),
    Policies(),
    Grader(),
    TierAuth(),
)
"""In the order in which they are described. Which of them run, and in what order, each bundle says."""
BUNDLE_FORM = BundleForm(gate.part for gate in GATES if gate.part is not None)
"""What a policy bundle may say."""


def list_shipped_stages() -> tuple[Stage, ...]:
    """Every gate that ships, as a decision point takes them."""
    return GATES


def load_bundle(raw: bytes, bundle_hash: str | None = None) -> Bundle:
    """The policy bundle in a file's bytes. `bundle_hash`: the digest of what they say, where it is known
    already. Raises BundleError with the path and the reason."""
    return BUNDLE_FORM.load(raw, bundle_hash)
