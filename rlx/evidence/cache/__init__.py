"""Keep what reading found, so that only what is new is read again."""
