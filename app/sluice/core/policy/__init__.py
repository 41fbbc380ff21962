"""The policy of a decision: bundles, and the facts that hold for one agent and tool."""
