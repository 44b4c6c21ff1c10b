"""A back-end of which rlx has nothing but its row in the registry and this folder."""
