"""The registry of agents, tools, tenants and other entries: reading and look-up."""
