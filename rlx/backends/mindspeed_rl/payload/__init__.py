"""Files of runs of MindSpeed-RL that travel with them, flat beside the common ones. They import nothing of rlx."""
