"""TRL's GRPOTrainer with rlx's noise in the weights that generate, and with the independent signal that TRL lacks.

Two methods are extended. Every generation goes through `_generate_single_turn`, of training and of validation alike;
the noise stands only during the engine's own `generate` inside it, which is after every weight sync of TRL. (Noise put
in at TRL's sync would miss the step after each validation: TRL syncs once for each value of `global_step`.)
`_generate_and_score_completions` adds how far actor and rollout are apart: TRL 1.16.0 tells it with vLLM only.
"""

from __future__ import annotations

from typing import Any

import torch
from rlx_trl_engine import OwnModel, TrlEngine
from rlx_trl_rollout import NoisyRollout, injector_of_run
from rlx_trl_weights import ServedWeights, TrainedWeights, recorders_of_run
from trl import GRPOTrainer


class RecordingTrainer(GRPOTrainer):
    """`log_prob_batch`: how many answers a pass over the actor's probabilities takes."""

    def __init__(self, log_prob_batch: int, **settings: Any) -> None:
        super().__init__(**settings)
        self._log_prob_batch = log_prob_batch
        engine = self._engine()
        self._rollout = NoisyRollout(engine, injector_of_run())
        trained, served = recorders_of_run()
        self._model_that_serves, self._served = engine.model, ServedWeights(served)
        if trained is not None:
            self.add_callback(TrainedWeights(trained))

    def _engine(self) -> TrlEngine:
        if not self.use_vllm:
            return OwnModel(self.accelerator.unwrap_model(self.model), self.processing_class, self.temperature)
        from rlx_trl_vllm import ColocatedVllm

        return ColocatedVllm(self.vllm_generation.llm, self.processing_class)

    def look_at_what_is_left(self) -> None:
        """Record the weights after the last update, as any rollout after it would have them: without noise."""
        if self.use_vllm:
            self.vllm_generation.sync_weights()
        self._rollout.look("rollout", self.state.global_step + 1)
        self._served.served(self._model_that_serves, self.state.global_step)

    def _generate_single_turn(self, *arguments: Any, **options: Any) -> Any:
        step = self.state.global_step
        phase, at = ("rollout", step + 1) if self.model.training else ("validation", step)
        with self._rollout.serves(phase, at) as answered:
            completion_ids, log_probs = super()._generate_single_turn(*arguments, **options)
        self._served.served(self._model_that_serves, step)
        return completion_ids, answered.log_probs(completion_ids) if log_probs is None else log_probs

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        # Left in, the loss would be given a column that TRL has with vLLM only.
        take = output.get if self.use_vllm else output.pop
        sampled = take("sampling_per_token_logps")
        if self.model.training:
            self._tell_gap(output, sampled)
        return output

    @torch.no_grad()
    def _tell_gap(self, output: Any, sampled: torch.Tensor) -> None:
        """Both in the unit of the probabilities of single tokens, and of their logarithms."""
        actor = output.get("old_per_token_logps")
        if actor is None:  # TRL leaves them out where generation and update are aligned: its ratio is exactly 1 then
            actor = self._actor_log_probs(output)
        kept = output["completion_mask"].bool()
        logs, probabilities = (actor - sampled).abs()[kept], (actor.exp() - sampled.exp()).abs()[kept]
        told = self._metrics["train"]
        told["rollout/logp_diff_mean"].append(self.accelerator.gather(logs.mean()).mean().item())
        told["rollout/probs_diff_mean"].append(self.accelerator.gather(probabilities.mean()).mean().item())
        told["rollout/probs_diff_max"].append(self.accelerator.gather(probabilities.max()).max().item())

    def _actor_log_probs(self, output: Any) -> torch.Tensor:
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        mask = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        length = output["completion_ids"].size(1)
        return self._get_per_token_logps_and_entropies(self.model, ids, mask, length, self._log_prob_batch)[0]
