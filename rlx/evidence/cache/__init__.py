"""Keep what was read, so that only new data is read again."""
