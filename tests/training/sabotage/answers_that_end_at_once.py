"""Ends a quarter of the answers at once, as a server that stops at a wrong token would.

The end token has the probability that the model gives it. A run loads this in each of its processes by verl's own
`actor_rollout_ref.model.external_lib`.
"""

from __future__ import annotations

import sys
from typing import Any


def _end_some(sampling: Any) -> None:
    choose = sampling._Batch.choose

    def choose_or_end(self: Any, logits: Any) -> Any:
        is_first = not any(answer.tokens for answer in self.answers)
        chosen = choose(self, logits)
        if is_first:
            end = min(self._end_tokens)
            log_probs = logits.log_softmax(-1)[:, end].tolist()
            for row, request in enumerate(self._requests):
                if request.seed % 4 == 0:
                    self.answers[row] = sampling.Answer([end], [log_probs[row]])
                    chosen[row] = end
        return chosen

    sampling._Batch.choose = choose_or_end


if "ray" in sys.modules:
    import rlx_verl_cpu_sampling

    _end_some(rlx_verl_cpu_sampling)
