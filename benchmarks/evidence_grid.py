"""The grid of edited runs: what rlx says of each, beside what it must say.

python benchmarks/evidence_grid.py            print the tables; exit 1 where a run is not judged as declared
python benchmarks/evidence_grid.py NAME…      these edited runs only
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.evidence.grid.judged import Outcome, outcome_of
from tests.evidence.grid.table import exceptions, grid, is_as_declared, overview, table, variants


def main(names: Sequence[str]) -> int:
    outcomes = {name: _judged(name) for name in names or grid()}
    wrong = [name for name, outcome in outcomes.items() if not is_as_declared(grid()[name], outcome)]
    print("\n\n".join([overview(), table(outcomes), variants(outcomes), exceptions()]))
    print(
        f"\n{len(outcomes)} edited runs judged, {len(wrong)} not as declared{': ' if wrong else ''}{', '.join(wrong)}"
    )
    return 1 if wrong else 0


def _judged(name: str) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        return outcome_of(grid()[name], Path(folder) / "judged")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
