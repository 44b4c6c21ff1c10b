"""Plans as text: a summary with a row per arm, and each run in full."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.api.planning import PlannedRun
from rlx.api.power import power_findings
from rlx.cli.text.experiment_text import design_lines
from rlx.cli.text.memory_text import memory_lines, memory_use
from rlx.cli.text.noise_text import percent
from rlx.errors import RlxError
from rlx.evidence.checks.recipe_settings import expected_traces
from rlx.evidence.traces import KeyTrace, TraceStatus
from rlx.evidence.verdict import counted
from rlx.model import Expectations, Finding, LaunchPlan, Link, NoiseExpectation, Severity, Site, finding_text
from rlx.model.launch_plan import script_words
from rlx.model.rounding import DTYPES, TYPICAL, Weights, survival
from rlx.model.run_dir import LAUNCH_FILE, PAYLOAD_DIR, SCRIPT_DIR
from rlx.table import Column, Table

if TYPE_CHECKING:
    from rlx.api.planning import Plans
    from rlx.api.power import RecipePower
    from rlx.model import Registration
    from rlx.planning.host_query import QueriedHost

_SHOWN_STEPS = 12
_SHOWN_WORDS = {
    TraceStatus.SHOWN: "will be shown by metrics and records",
    TraceStatus.COMPOSED: "will be shown by the composed configuration only",
    TraceStatus.NOT_OBSERVABLE: "cannot be observed",
}


def headline(plans: Plans) -> str:
    """Return `2 runs · 116 steps each · 52 of 61 GiB · 3 notes`."""
    parts = [counted(len(plans.plans), "run"), _steps(plans.plans)]
    if memory := memory_use(plans.planned_runs):
        parts.append(memory)
    severities = [finding.severity for finding in plans.findings]
    counts = [counted(severities.count(one), one.value) for one in Severity if one in severities]
    return " · ".join([*parts, *(counts or ["no findings"])])


def findings_lines(plans: Plans) -> Iterator[str]:
    """Yield each finding once, errors first."""
    for finding in plans.findings:
        yield "  " + finding_text(finding).replace("\n", "\n  ")


def arms_table(plans: Plans) -> Table:
    """Return a row per arm; seeds of an arm that differ in more than the seed have their own rows."""
    rows: dict[tuple[str, ...], list[int]] = {}
    for plan in plans.plans:
        rows.setdefault(_row(plan), []).append(plan.seed)
    arm, given, steps, validations, noise, devices, where = zip(*rows, strict=True)
    return Table(
        [
            Column("arm", arm),
            Column("seed", [", ".join(map(str, seeds)) for seeds in rows.values()], flows=True),
            *([Column("given", given, flows=True)] if any(given) else []),
            Column("steps", steps),
            Column("validated at", validations, rank=2, flows=True),
            *([Column("noise", noise, rank=1, flows=True)] if any(each != "none" for each in noise) else []),
            Column("devices", devices, rank=3, flows=True),
            *([Column("in", where, flows=True)] if len({*where}) > 1 else []),
        ]
    )


def _row(plan: LaunchPlan) -> tuple[str, ...]:
    expected = plan.expectations
    steps = "?" if expected.total_steps is None else str(expected.total_steps)
    validated = steps_text(expected.validation_steps) if expected.validation_steps else "–"
    given = " ".join(script_words(plan).values())
    return plan.arm, given, steps, validated, _noise_cell(plan), devices_text(plan), where_text(plan.site)


def _steps(plans: Sequence[LaunchPlan]) -> str:
    known = sorted({plan.expectations.total_steps or 0 for plan in plans})
    if not known or known[0] == 0:
        return "unknown number of steps"
    if known[1:]:
        return f"{known[0]} to {known[-1]} steps"
    return f"{known[0]} steps{' each' if plans[1:] else ''}"


def _noise_cell(plan: LaunchPlan) -> str:
    noise = plan.expectations.noise
    sigmas = [sigma for _, _, sigma in noise.spans if sigma] if noise else []
    if not sigmas:
        return "none"
    return f"σ {sigmas[0]:g} → {sigmas[-1]:g}" if sigmas[0] != sigmas[-1] else f"σ {sigmas[0]:g}"


def place_line(plans: Plans) -> str:
    """Return where the runs are, if all are in one place, since a path is too long for a column."""
    places = {where_text(plan.site) for plan in plans.plans}
    return f"in {places.pop()}" if len(places) == 1 else ""


def distribution_lines(plans: Plans) -> Iterator[str]:
    """Yield `a3 takes seeds 1, 4; it is free` for each host of a sweep; nothing for a launch on one host."""
    if plans.distribution is None:
        return
    for room in plans.distribution.capacities:
        seeds = dict.fromkeys(plan.seed for plan in plans.plans if plan.site.host == room.host)
        named = f"seed{'s' * (len(seeds) != 1)} {', '.join(map(str, seeds))}" if seeds else "nothing"
        there = f"{room.ahead} run{'s' * (room.ahead != 1)} before them" if room.ahead else "it is free"
        yield f"{room.host} takes {named}; {there}"


def plan_text(planned: PlannedRun, with_files: bool, *, written: bool = False) -> str:
    """Return one run: title, command, files, environment, experiment, expectations, memory, findings, file contents.

    For a `written` plan and for a script of the user it shows launch.sh of every node in place of the command.
    """
    plan = planned.plan
    sections = {
        **({"nodes": map(_node, plan.nodes)} if plan.workers else {}),
        **(_scripts(plan) if written or not plan.has_recipe else {"command": _command(plan.command)}),
        **({"after the training": after} if (after := list(_post(plan))) else {}),
        "files": (f"{file.path:34} {file.mode:04o} {len(file.content.encode()):7,} bytes" for file in plan.files),
        "environment": _environment(plan),
        **({"experiment": design_lines(plan.registration)} if plan.registration else {}),
        "expectations": _expectations(plan),
        **({"memory": memory} if (memory := list(memory_lines(planned))) else {}),
        "findings": _findings(plan.findings),
    }
    body = "\n".join(_section(name, lines) for name, lines in sections.items())
    contents = "".join(f"\n\n--- {file.path}\n{file.content.rstrip()}" for file in plan.files) if with_files else ""
    trainer = f"{plan.backend} {plan.backend_version}" if plan.backend else "unknown trainer"
    title = f"{plan.run_name}: {trainer}, {devices_text(plan)}, in {where_text(plan.site)}"
    return f"{title}\n{body}{contents}"


def _scripts(plan: LaunchPlan) -> dict[str, list[str]]:
    return {
        f"{file.path} on {node.site.place.destination or 'this machine'}": file.content.splitlines()
        for node in plan.nodes
        for file in node.files
        if file.path == LAUNCH_FILE or file.path.startswith(f"{SCRIPT_DIR}/")
    }


def experiment_section(registration: Registration | None) -> Iterator[str]:
    """Yield the experiment of the plans, if they have one."""
    if registration is not None:
        yield _section("experiment", design_lines(registration))


def power_section(found: RecipePower | None) -> Iterator[str]:
    """Yield the power of the experiment of the plans, with its findings, if they have one."""
    if found is not None:
        from rlx.cli.text.experiment_text import planned_power_lines

        yield _section("power", [*planned_power_lines(found), *_findings([*power_findings(found)])])


def look_text(look: QueriedHost) -> str:
    """Return the findings on a host."""
    return _section(f"findings on {look.results.where}", _findings(look.findings))


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    return (finding_text(finding).replace("\n", "\n  ") for finding in findings)


def devices_text(plan: LaunchPlan) -> str:
    """Return `2 × npu (0, 1) on each of 2 nodes`."""
    chosen = f" ({', '.join(map(str, plan.device_list))})" if plan.device_list else ""
    nodes = f" on each of {len(plan.nodes)} nodes" if plan.workers else ""
    return f"{plan.devices} × {plan.device_kind}{chosen}{nodes}"


def where_text(site: Site) -> str:
    """Return the folder of the runs, the host, the container or image, and the folder's name inside the container."""
    if site.job_image is not None:
        return f"{site.root} on {site.host}, each job in its own container from {site.job_image.name}"
    if site.container is None:
        return f"{site.root} on {site.host}"
    if site.container_root is None:
        return f"{site.root} inside container {site.container} on {site.host}"
    return f"{site.root} on {site.host}, container {site.container} ({site.container_root} there)"


def _node(plan: LaunchPlan) -> str:
    address = "the address of the node that the scheduler chooses" if plan.site.batch else plan.site.address
    role = f"the head, reached at {address}" if not plan.node else "joins the head's Ray"
    return f"{plan.node}  {where_text(plan.site)}: {role}"


def _section(name: str, lines: Iterable[str]) -> str:
    indented = [f"  {line}" for line in lines]
    return "\n".join([name, *indented]) if indented else f"{name}: none"


def _command(command: Sequence[str]) -> Iterator[str]:
    """Yield the command with one override per line."""
    words = [shlex.quote(word) for word in command]
    start = next((i for i, word in enumerate(command) if "=" in word), len(words))
    lines = [" ".join(words[:start]), *(f"  {word}" for word in words[start:])]
    yield from (f"{line} \\" for line in lines[:-1])
    yield lines[-1]


def _converter(backend: str) -> str:
    """Return the program with which the back-end converts checkpoints."""
    from rlx.backends.registry import optional_part

    own = optional_part(backend, "merger")
    return own.PROGRAM if own else "nothing"


def _post(plan: LaunchPlan) -> Iterator[str]:
    """Yield what `eval.post` does, by the order that is sent with the run."""
    order = next((json.loads(file.content) for file in plan.files if file.path == f"{PAYLOAD_DIR}/eval.json"), None)
    if order is None:
        return
    how = f"temperature {order['temperature']:g}" if order["temperature"] else "greedy"
    rows = "all rows" if order["row_count"] is None else f"{order['row_count']:,} rows"
    samples = "1 sample" if order["n"] == 1 else f"{order['n']} samples"
    yield f"the last checkpoint, converted by {order['convert'] or _converter(plan.backend)}"
    yield f"answers {rows} of {order['rows']}, {samples} each, {how}, by {order['engine']}"
    yield f"graded by {order['reward'].get('name') or order['reward']['file']}"


def _environment(plan: LaunchPlan) -> Iterator[str]:
    yield from (f"source {shlex.quote(script)}" for script in plan.site.setup)
    yield from (f"{name}={shlex.quote(value)}" for name, value in plan.env.items())
    yield from (f"{name}: the secret {secret}" for name, secret in plan.site.proxies.items())
    yield from (f"{name}: secret, from the environment of rlx launch" for name in plan.secrets)


def _expectations(plan: LaunchPlan) -> Iterator[str]:
    expected = plan.expectations
    total = expected.total_steps
    if not plan.has_recipe:
        yield (
            f"as --expect says: {expected.stated}"
            if expected.stated
            else ("steps and validations: not known before the log prints the configuration")
        )
        yield from _noise(plan)
        return
    yield f"{total} steps" if total is not None else "an unknown number of steps: the recipe does not say how many rows"
    if expected.batches is not None:
        yield f"{expected.batches} batches generated per step"
    if expected.validation_steps or expected.last_step_validated or expected.total_steps is None:
        yield _validations(expected)
        yield f"{_items(expected)}; metric {expected.metric}"
    else:
        yield f"no validation; metric {expected.metric}"
    yield from _noise(plan)
    if expected.correction:
        yield f"correction: {expected.correction}"
    yield from _second_signal(expected)
    yield from _traces(plan)
    yield _weights(expected)


def _traces(plan: LaunchPlan) -> Iterator[str]:
    """Yield by what the settings of the treatment will be shown; for an arm without treatment, all settings."""
    found = list(expected_traces(plan))
    is_treatment = any(trace.key in plan.treatment for trace in found)
    for shown, words in _SHOWN_WORDS.items():
        if names := [_trace(trace) if is_treatment else trace.key for trace in found if trace.shown is shown]:
            yield f"{'the treatment' if is_treatment else 'the settings'} {words}: {', '.join(names)}"


def _trace(trace: KeyTrace) -> str:
    reason = trace.words if trace.shown is TraceStatus.NOT_OBSERVABLE else trace.by
    return f"{trace.key} ({reason})" if reason else trace.key


def _weights(expected: Expectations) -> str:
    weights = expected.weights
    if weights is None:
        return "not observable: whether the weights move and reach the engine"
    engines = f", that generate: {weights.engines}" if weights.engines else ""
    return f"weights recorded at each sync; processes that train: {weights.trainers}{engines}"


def _second_signal(expected: Expectations) -> Iterator[str]:
    if expected.witness:
        yield f"second signal of the noise: {expected.witness.replace('_', ' ')} (the probability gap is not logged)"
    elif not expected.reports_probability_gap:
        yield "no second signal of the noise: the gap between rollout and actor probabilities is not logged"


def _validations(expected: Expectations) -> str:
    last = "the last step is validated" if expected.last_step_validated else "the last step is not validated"
    if not expected.validation_steps:
        return f"no validation at a step known in advance; {last}"
    return f"validation at {steps_text(expected.validation_steps)}; {last}"


def _items(expected: Expectations) -> str:
    items = "an unknown number of" if expected.validation_items is None else expected.validation_items
    samples = "1 sample" if expected.validation_samples == 1 else f"{expected.validation_samples} samples"
    return f"{items} validation items, {samples} each"


def _noise(plan: LaunchPlan) -> Iterator[str]:
    noise = plan.expectations.noise
    if noise is None:
        yield "no noise" if plan.has_recipe else "no noise from rlx"
        if plan.expectations.watch is not None:
            yield from _watched(plan.expectations.watch)
        return
    during = "in validation, too" if noise.in_validation else "not in validation"
    yield f"noise on {' and '.join(noise.layer_types)} layers in {noise.stages} stages ({noise.provider}), {during}:"
    dtype, norms = plan.recipe.get("model", {}).get("dtype", ""), _norms(plan)
    for first, last, sigma in noise.spans:
        shares = (_share(sigma, dtype, kind, norms) for kind in noise.layer_types if sigma and dtype in DTYPES)
        yield f"  steps {first}–{last}: " + ", ".join([f"sigma {sigma:.6g}" if sigma else "none", *shares])
    if noise.perturbations > 1:
        yield f"  each step samples it {noise.perturbations} times, each time for an equal part of every group"
    if noise.adaptive is not None:
        rule = noise.adaptive
        yield (
            f"  sigma then follows the {rule.target} of each step, for {rule.value:g}: times or divided by "
            f"{1 + rule.gain:g}, {rule.sigma_min:g} to {rule.sigma_max:g}"
        )
    if noise.promise is not None:
        yield from _expected(noise.promise)


def _watched(promise: NoiseExpectation) -> Iterator[str]:
    looks = "digests and the probe" if promise.probed else "digests"
    yield f"evidence expected that there is none: {looks}, for {', '.join(promise.links)}"
    yield from _in_processes(promise)


def _expected(promise: NoiseExpectation) -> Iterator[str]:
    """Yield the checks of noise that the run must pass, and which layers must receive noise."""
    lacking = [link for link in Link if not promise.expects(link)]
    yield f"noise evidence expected: {', '.join(promise.links)}" + (f"; not {', '.join(lacking)}" if lacking else "")
    yield from _in_processes(promise)


def _in_processes(promise: NoiseExpectation) -> Iterator[str]:
    if promise.expects(Link.REACHED):
        processes = f"{len(promise.processes)} process{'' if len(promise.processes) == 1 else 'es'}"
        yield f"  in {processes}, on {_layers(promise)}"


def _layers(promise: NoiseExpectation) -> str:
    if not promise.layers:
        return "layers that are not known in advance"
    memory = "" if promise.confirmed else " (shapes of the model not confirmed)"
    return f"{len(promise.layers)} norm layers with {promise.elements:,} weights{memory}"


def _norms(plan: LaunchPlan) -> Weights | None:
    """Return the norm weights of the model, if it is on this machine and is trained here."""
    from rlx.api.noise import norm_weights

    path = plan.recipe.get("model", {}).get("path")
    if path is None or plan.site.container or not plan.site.place.is_local:
        return None
    with suppress(RlxError):  # no weights that could be read
        return norm_weights(Path(path).expanduser())
    return None


def _share(sigma: float, dtype: str, kind: str, norms: Weights | None) -> str:
    """Return `78 % of bfloat16 weights around 1 change`."""
    if norms and kind == "rmsnorm":
        return f"{percent(survival(sigma, dtype, norms).changed)} of the model's {dtype} norm weights change"
    about = TYPICAL[kind]
    return f"{percent(survival(sigma, dtype, {about: 1}).changed)} of {dtype} weights around {about:g} change"


def steps_text(steps: Sequence[int]) -> str:
    """Return `steps 0, 20, 40`; many at equal distance as `every 20 steps from 0 to 400`, with an odd last one."""
    if len(steps) <= _SHOWN_STEPS:
        return f"step{'s' if len(steps) > 1 else ''} {', '.join(map(str, steps))}"
    distances = [after - before for before, after in pairwise(steps)]
    if len(set(distances)) == 1:
        return f"every {distances[0]} steps from {steps[0]} to {steps[-1]}"
    if len(set(distances[:-1])) == 1:
        return f"every {distances[0]} steps from {steps[0]} to {steps[-2]}, and {steps[-1]}"
    return f"{len(steps)} steps: {', '.join(map(str, steps[:_SHOWN_STEPS]))}, …, {steps[-1]}"
