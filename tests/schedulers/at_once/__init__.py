"""A scheduler as another distribution would bring it: it starts each job at once, as a process of this machine."""
