"""The quality report as one HTML page: charts as inline SVG, no script, nothing fetched."""
