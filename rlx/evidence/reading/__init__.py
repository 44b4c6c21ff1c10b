"""Read what a run left behind: log grammars, metric series, records."""
