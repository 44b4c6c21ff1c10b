"""Query a site by probes, which are data and share one round trip."""
