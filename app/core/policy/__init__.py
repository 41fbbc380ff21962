"""What decisions are made under: bundles, and what holds for one agent and tool."""
