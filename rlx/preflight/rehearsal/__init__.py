"""The same recipe in small: what `rlx rehearse` runs on this CPU. Derives and writes; starts nothing."""

from rlx.preflight.rehearsal.derive import rehearsal_of, tiny_model_of
from rlx.preflight.rehearsal.rows import write
from rlx.preflight.rehearsal.twin import Change, Places, Rehearsal, Untold

__all__ = ["Change", "Places", "Rehearsal", "Untold", "rehearsal_of", "tiny_model_of", "write"]
