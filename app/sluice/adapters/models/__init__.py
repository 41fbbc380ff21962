"""Hosted models behind the ports at which the core asks for a judgement."""
