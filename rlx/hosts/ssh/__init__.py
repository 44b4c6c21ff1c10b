"""Reach hosts by ssh: OpenSSH or paramiko."""
