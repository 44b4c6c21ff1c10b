"""Not MindSpeed-RL: classes of ours with its names at the places where weights are handed to the rollout.

They do there what its own do (05a90d77), on a tiny model on the CPU: new buffers at each sync, filled with all trained
weights, parameters that point at them, and parameters on the CPU that nobody fills once the engine lets go. Nothing is
learned: an update moves the weights.
"""
