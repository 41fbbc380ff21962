"""The pages' Jinja2 templates."""
