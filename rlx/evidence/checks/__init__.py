"""The checks of a run's evidence, by subject, and the table of all of them."""
