"""Read the options of rlx launch that are about a launch script of the users' own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.list_options import NAME_LIST
from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.api.plans import Plans
    from rlx.cli.frame.site_options import Where

ScriptOption = Annotated[
    str | None, typer.Option("--script", metavar="FILE", help="Your own bash script in place of a recipe, unchanged.")
]
NameOption = Annotated[str | None, typer.Option("--name", help="What to call the experiment of --script.")]
AqnOption = Annotated[
    str | None,
    typer.Option(
        "--aqn",
        metavar="KEY=VALUE,...",
        help="Noise around --script: sigma_start, sigma_end, stages, and steps where the script does not say them.",
    ),
]
WorkdirOption = Annotated[
    str | None, typer.Option("--workdir", help="Where --script starts on its host. Default: here, or its home.")
]
SecretOption = Annotated[
    list[str] | None, typer.Option("--secret", metavar=NAME_LIST, help="A variable that --script gets, never shown.")
]
AcceptOption = Annotated[
    bool,
    typer.Option(
        "--accept-lines", help="Launch --script even if it affects other processes (RLX031, RLX032, RLX046, RLX047)."
    ),
]


@dataclass(frozen=True, slots=True)
class Asked:
    """What was typed about a script."""

    script: str | None
    name: str | None
    aqn: str | None
    workdir: str | None
    secrets: Sequence[str]
    accepts_lines: bool

    @property
    def is_script(self) -> bool:
        """Tell whether there is one. Raises UsageError for options that mean nothing without it."""
        if self.script is None and (self.name or self.aqn or self.workdir or self.secrets or self.accepts_lines):
            options = "--name, --aqn, --workdir, --secret and --accept-lines"
            raise UsageError(f"{options} are about a script", "add --script FILE; a recipe has keys for them")
        return self.script is not None

    def check(self, arms: Sequence[str], seeds: Sequence[int], others: object) -> None:
        """Read the script, if any; no host is asked. Raises UsageError for what goes with recipes only, too."""
        from rlx.api.scripts import read_script

        if not self.is_script:
            return
        if self.script is None or self.name is None:
            raise UsageError("what is the experiment called?", "rlx launch --script FILE --name NAME --arm ARM")
        if others or len(arms) > 1 or len(seeds) > 1:
            raise UsageError(
                "--script is one run, and no recipe",
                "leave out the recipe, --set, --send and --plan; one --arm and --seed",
            )
        read_script(self.script, self.name, next(iter(arms), None), self.aqn)

    def plan(self, arms: Sequence[str], seeds: Sequence[int], where: Where) -> Plans:
        """Plan the script, which `check` has found good."""
        from rlx.api.scripts import plan_script
        from rlx.cli.frame.output import patience

        assert self.script is not None and self.name is not None
        host, container, devices = where
        with patience(f"asking {host or 'the host'} …"):
            return plan_script(
                self.script,
                self.name,
                arm=next(iter(arms), None),
                seed=next(iter(seeds), None),
                aqn=self.aqn,
                host=host,
                container=container,
                devices=devices,
                workdir=self.workdir,
                secrets=self.secrets,
                accepts_lines=self.accepts_lines,
            )
