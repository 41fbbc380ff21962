"""The client at the interception points of agent frameworks: a module for each, imported by nobody else."""
