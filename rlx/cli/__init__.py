"""The command line: one module per command, which parses, calls `rlx.api` and prints. Only it uses typer and rich."""
