"""Hold all that rlx knows of existing Ray clusters, and nothing that another scheduler shares."""
