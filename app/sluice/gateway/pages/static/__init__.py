"""What the pages load: their style, and htmx as vendored.sha256 says."""
