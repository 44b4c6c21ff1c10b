"""The checks of a run, one module each, what several of them need, and the table of them all."""
