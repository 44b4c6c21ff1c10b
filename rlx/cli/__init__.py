"""What people type: one module per command that parses, calls and prints. The only room with typer and rich."""
