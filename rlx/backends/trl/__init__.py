"""The back-end TRL: all that rlx knows of it. Imports nothing here, so that each part can be loaded alone."""
