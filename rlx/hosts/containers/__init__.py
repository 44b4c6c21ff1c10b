"""Find, make and enter the container that a site names."""
