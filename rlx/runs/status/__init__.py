"""Look at runs: what their hosts say of them, as states and rows."""
