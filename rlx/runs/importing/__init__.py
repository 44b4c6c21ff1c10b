"""Track runs that rlx did not start while their logs grow, or import their logs."""
