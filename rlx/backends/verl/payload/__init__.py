"""Files of runs of verl that travel with them, flat beside the common ones. They import nothing of rlx."""
