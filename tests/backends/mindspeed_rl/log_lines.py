"""What the programs of rlx write into the log of a run on several nodes, each sentence once for all tests."""

from __future__ import annotations

NOTHING_STARTED = "nothing was started"
RAY_ENDED = "Ray ended before the training"
HEAD_ENDED = "has ended, and with it this node"
ALL_NODES = "all {} nodes are there"
NODE_LATE = "node 1 of 2 did not come within {} s"
HEAD_LATE = "the head did not come within 1 s: {}"
NODE_LOST = "this run's Ray lost node 1 ({}"
WRONG_TOKEN = "the Ray at {} refuses this node's token"
PORT_TAKEN = ("port {} of this node", "is taken")
FOREIGN_ADDRESS = "{} is no address of this node"
OUT_OF_REACH = "could not be reached"
FEW_CPUS = "of {} CPUs that MindSpeed-RL waits for"
OTHER_NPUS = "the NPUs {} only, not on {}"
NO_PLACE_FOR_NOISE = "VLLMInferEngine.sync_model_weights is missing (fix: use an unchanged MindSpeed-RL"
