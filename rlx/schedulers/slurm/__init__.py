"""All that rlx knows of Slurm."""
