"""Take commands from people: one module a command: parse, call, print. Only this room knows typer and rich."""
