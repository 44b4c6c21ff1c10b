"""The grid of edited runs: what rlx says of each, beside what it must say.

python benchmarks/evidence_grid.py            print the tables; exit 1 where a run is not judged as declared
python benchmarks/evidence_grid.py NAME…      these edited runs only
python benchmarks/evidence_grid.py treatments     by treatment: as it arrived, not composed, not shown by the records
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.evidence.grid.judged import Outcome, outcome_of, outcome_of_pair, places
from tests.evidence.grid.table import exceptions, grid, is_as_declared, overview, table, variants
from tests.evidence.treatments import TREATMENTS, Treatment, place_treatment


def main(names: Sequence[str]) -> int:
    if names == ["treatments"]:
        return treatments()
    outcomes = {name: _judged(name) for name in names or grid()}
    wrong = [name for name, outcome in outcomes.items() if not is_as_declared(grid()[name], outcome)]
    print("\n\n".join([overview(), table(outcomes), variants(outcomes), exceptions()]))
    print(
        f"\n{len(outcomes)} edited runs judged, {len(wrong)} not as declared{': ' if wrong else ''}{', '.join(wrong)}"
    )
    return 1 if wrong else 0


def treatments() -> int:
    """Print what is said of each treatment; exit code 1 where one that never arrived counts as valid."""
    print("| treatment | recipe key | arrived | not composed | not in the records |\n|---|---|---|---|---|")
    wrong = []
    for name, treatment in TREATMENTS.items():
        arrived, uncomposed = _said(treatment), _said(treatment, composed=False, logged=False)
        unseen = _said(treatment, logged=False) if treatment.shown or treatment.file else "leaves no record"
        print(f"| {name} | {treatment.key} | {arrived} | {uncomposed} | {unseen} |")
        # RLX902: what is a treatment here is a condition of the evaluation as well.
        if not arrived.startswith(("valid", "not comparable")) or "valid" in (uncomposed, unseen):
            wrong.append(name)
    print(f"\n{len(TREATMENTS)} treatments, {len(wrong)} not as they must be{': ' if wrong else ''}{', '.join(wrong)}")
    return 1 if wrong else 0


def _said(treatment: Treatment, *, composed: bool = True, logged: bool = True) -> str:
    with tempfile.TemporaryDirectory() as folder, places(Path(folder) / "judged"):
        place_treatment(treatment, composed=composed, logged=logged)
        outcome = outcome_of_pair()
    return " ".join((outcome.status, *(id for id in outcome.ids if id != "RLX909")))


def _judged(name: str) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        return outcome_of(grid()[name], Path(folder) / "judged")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
