"""The demo's parts: what it publishes, the worker it runs, and what it makes of the answers.

Edge code like `app/cli`, which tells it; nothing below imports it.
"""
