"""rlx: launches RL experiments on remote NPU hosts and tells the truth about the result."""

__version__ = "0.1.0"
