"""Ask a site what it is and has: probes as data, packed into one round trip."""
