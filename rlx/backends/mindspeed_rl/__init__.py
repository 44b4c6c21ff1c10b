"""The back-end MindSpeed-RL: all that rlx knows of it. Imports nothing here, so that each part can be loaded alone."""
