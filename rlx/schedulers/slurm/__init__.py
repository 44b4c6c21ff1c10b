"""Hold all that rlx knows of Slurm, and nothing that another scheduler shares."""
