"""Parts of every command: command table, shared options, streams, error handler."""
