"""Files of runs of TRL that travel with them, flat beside the common ones. They import nothing of rlx."""
